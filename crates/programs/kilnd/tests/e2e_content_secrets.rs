//! The search for secrets in the content of files, on the configuration of whole systems: it must not reject what people put into a NodeConfig.

use std::fs;
use std::path::{Path, PathBuf};

use kiln_node_config::secrets;
use serde_json::json;
use test_deps::TestDep;

fn texts(folder: &Path, into: &mut Vec<(PathBuf, String)>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => texts(&path, into),
            Ok(kind) if kind.is_file() => into.extend(fs::read_to_string(&path).ok().map(|text| (path, text))),
            _ => {}
        }
    }
}

fn found(text: &str) -> Vec<String> {
    let document = json!({"spec": {"files": [{"path": "/x", "content": text}]}});
    secrets::find(&document).iter().map(ToString::to_string).collect()
}

#[test]
fn configuration_of_whole_systems_has_no_secrets() {
    let mut all = Vec::new();
    for dependency in [TestDep::NodeRoot, TestDep::CloudRoot] {
        let program = testkit::require(dependency);
        let root = program.ancestors().nth(3).expect("a root folder").to_owned();
        for folder in ["etc", "usr/lib/systemd", "usr/lib/sysctl.d", "usr/lib/tmpfiles.d", "usr/share/containerd"] {
            texts(&root.join(folder), &mut all);
        }
    }
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    for folder in ["units", "tests/node/everything"] {
        texts(&repository.join(folder), &mut all);
    }
    assert!(all.len() > 500, "{}", all.len());
    let alarms: Vec<String> = all
        .iter()
        .flat_map(|(path, text)| found(text).into_iter().map(move |found| format!("{}: {found}", path.display())))
        .collect();
    assert!(alarms.is_empty(), "{alarms:#?}");
    // The search itself works.
    assert_eq!(found("{\"aadClientSecret\": \"hunter2\"}").len(), 1);
}
