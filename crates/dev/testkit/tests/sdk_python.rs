//! The test dependency `python`, whose scripts reach only loopback.

use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;
use testkit::python;

fn script(text: &str) -> (TempDir, PathBuf) {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("script.py");
    fs::write(&path, text).unwrap();
    (folder, path)
}

#[test]
fn sdk_has_the_requested_versions() {
    let (_folder, path) = script(
        "import importlib.metadata as m, json\n\
         print(json.dumps({n: m.version(n) for n in ('azure-mgmt-compute', 'azure-identity')}))",
    );
    let versions = python(&path, &[], &[]).json();
    assert_eq!(versions["azure-mgmt-compute"], "39.0.0");
    assert_eq!(versions["azure-identity"], "1.27.0");
}

#[test]
fn arguments_and_variables_reach_the_script() {
    let (_folder, path) = script("import os, sys; print(sys.argv[1], os.environ['AZURE_TENANT_ID'])");
    let finished = python(&path, &["one"], &[("AZURE_TENANT_ID", "two")]);
    assert_eq!(finished.stdout, "one two\n");
}

#[test]
#[should_panic(expected = "the reason")]
fn failing_script_fails_the_test() {
    let (_folder, path) = script("raise SystemExit('the reason')");
    python(&path, &[], &[]);
}

#[test]
#[should_panic(expected = "Connection refused")]
fn request_beyond_loopback_fails() {
    let (_folder, path) = script("import requests; requests.get('https://kiln.invalid', timeout=30)");
    python(&path, &[], &[]);
}
