//! Files that are generated from the kinds: the definitions in the chart and the reference page. `KILN_BLESS=1` writes them.

use std::fs;
use std::path::Path;

fn compare(path: &str, expected: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").join(path);
    if std::env::var_os("KILN_BLESS").is_some() {
        fs::write(&path, expected).expect("the file is written");
    }
    let found = fs::read_to_string(&path).unwrap_or_default();
    assert!(found == expected, "{} differs from the code; run the test with KILN_BLESS=1", path.display());
}

#[test]
fn definitions_in_the_chart_are_those_of_the_code() {
    compare("charts/kiln/files/fleet-crds.yaml", &kiln_fleet_api::yaml());
}

#[test]
fn reference_page_is_that_of_the_code() {
    compare("docs/reference/fleet.md", &kiln_fleet_api::reference_page());
}

#[test]
fn every_field_is_documented_or_obvious() {
    // Fields whose name and type say everything.
    let obvious =
        ["phase", "status", "conditions", "digest", "name", "node", "reason", "message", "passed", "waves", "failure"];
    let page = kiln_fleet_api::reference_page();
    let bare: Vec<&str> = page
        .lines()
        .filter(|line| line.starts_with("| `") && line.ends_with("|  |"))
        .filter_map(|line| line.split('`').nth(1))
        .filter(|path| !obvious.contains(&path.rsplit('.').next().unwrap_or_default()))
        .collect();
    assert!(bare.is_empty(), "fields without a description: {bare:?}");
}
