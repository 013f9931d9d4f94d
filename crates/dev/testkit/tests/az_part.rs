//! The test dependency `az`.

use tempfile::TempDir;
use testkit::az;

#[test]
fn az_has_the_requested_version() {
    let configuration = TempDir::new().unwrap();
    let version = az(configuration.path(), &["version", "--output", "json"], &[]).success().json();
    assert_eq!(version["azure-cli"], "2.91.0");
}

#[test]
fn failing_command_keeps_its_exit_code() {
    let configuration = TempDir::new().unwrap();
    let finished = az(configuration.path(), &["account", "show"], &[]);
    assert_eq!(finished.code, Some(1), "{finished}");
    assert!(finished.stderr.contains("az login"), "{finished}");
}
