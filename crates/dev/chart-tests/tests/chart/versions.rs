//! The version of the chart.

use std::fs;

use chart_tests::{root, text};

#[test]
fn chart_and_program_have_the_same_version() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let version = manifest.lines().find_map(|line| line.strip_prefix("version = ")).unwrap().trim_matches('"');
    let chart = text("Chart.yaml");
    for line in [format!("version: {version}"), format!("appVersion: {version}")] {
        assert!(chart.lines().any(|one| one == line), "Chart.yaml lacks `{line}`");
    }
}
