//! The command line of the benchmark.

use std::process::Command;

#[test]
fn argument_that_is_not_a_number_of_nodes_is_a_usage_error() {
    let output = Command::new(env!("CARGO_BIN_EXE_fleet-bench")).arg("many").output().expect("the program runs");
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("Usage: fleet-bench [NODES...]"), "{error}");
}
