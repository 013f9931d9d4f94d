//! Boots machines with their own kernel, and checks the nodes that kilnd configures.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use test_deps::TestDep;
use testkit::require;

/// The work folder of this test. The default one may have results of a measurement.
fn work() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("az_boot_bench")
}

fn text(boot: &str, file: &str) -> String {
    let path = work().join("out").join(boot).join(file);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The size of the root file system in MiB.
fn root_size(boot: &str) -> u64 {
    let text = text(boot, "df.txt");
    let size = text.lines().nth(1).and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
    size.unwrap_or_else(|| panic!("{text}"))
}

#[test]
fn kilnd_configures_the_node_before_the_lease_with_swap_and_a_grown_root() {
    require(TestDep::BenchTools);
    require(TestDep::BenchRoot);
    let mut bench = Command::new(env!("CARGO_BIN_EXE_boot-bench"));
    bench.args(["boot", "--icount", "--output", "json"]);
    for variant in ["floor", "kilnd", "cloud-init", "disks"] {
        bench.args(["--variant", variant]);
    }
    let output = bench.arg("--work").arg(work()).output().expect("the boot bench");
    let errors = String::from_utf8_lossy(&output.stderr);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}\n{errors}"));

    let row = |name: &str| {
        let rows = report["variants"].as_array().expect("variants");
        rows.iter().find(|row| row["variant"] == name).unwrap_or_else(|| panic!("{name}: {report}")).clone()
    };
    assert!(row("kilnd")["ofFloor"].is_number(), "the nodes differ: {report}");
    assert!(row("kilnd")["ofCloudInit"].is_number(), "the nodes differ: {report}");
    assert!(row("disks")["ofFloor"].is_null(), "the nodes are equal: {report}");

    let (kubelet, lease) = (row("kilnd")["up"][0].as_f64(), row("kilnd")["lease"][0].as_f64());
    let (kubelet, lease) = (kubelet.expect("a kubelet"), lease.expect("a lease"));
    assert!(kubelet < lease, "kubelet at {kubelet} s, the lease at {lease} s");

    let swaps = text("disks-1", "swaps.txt");
    assert!(swaps.contains("/var/lib/kiln/swapfile"), "{swaps}");
    assert!(!text("kilnd-1", "swaps.txt").contains("swapfile"), "swap without a request");
    let (before, after) = (root_size("kilnd-1"), root_size("disks-1"));
    assert!(after > before + 500, "a file system of {before} MiB on a disk of 4 GiB has {after} MiB");
    // Only drawing charts can fail after the boots, because ratios are not checked with one boot of each variant.
    assert!(output.status.success(), "{errors}");
    for boot in ["kilnd-1", "cloud-init-1"] {
        let chain = text(boot, "chain.txt");
        assert!(chain.contains("kubelet.service"), "{boot}: {chain}");
        assert!(text(boot, "boot.svg").trim_end().ends_with("</svg>"), "{boot}");
    }

    // Gigabytes that are useful only after a failure.
    let _ = fs::remove_dir_all(work());
}
