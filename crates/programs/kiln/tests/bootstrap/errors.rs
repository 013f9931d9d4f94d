//! Errors name file, line, column and path.

use crate::fixture::Folder;

/// File name, content and expected error.
const CASES: [(&str, &str, &str); 18] = [
    (
        "settings.yaml",
        "location: eastus\nlocatoin: x\n",
        "settings.yaml:2:11: at `locatoin`: unknown field `locatoin`; did you mean `location`?",
    ),
    ("settings.yaml", "", "settings.yaml:1:1: the file is empty; expected a map of settings"),
    (
        "settings.yaml",
        "clusterId: 04659330\n",
        "settings.yaml:1:12: at `clusterId`: `clusterId` must be a string; put quotes around numbers",
    ),
    (
        "settings.yaml",
        "maxPods: 30\n",
        "settings.yaml:1:10: at `maxPods`: `maxPods` cannot be set by settings; allowed sources: node class",
    ),
    ("settings.yaml", "a: [1,\n", "settings.yaml:"),
    (
        "settings.yaml",
        "vnetGuid: nonsense\n",
        "settings.yaml:1:11: at `vnetGuid`: `vnetGuid`: `nonsense` is not a GUID",
    ),
    (
        "pool.yaml",
        "kind: NodePool\nspec:\n  template:\n    spec:\n      taints: many\n",
        "pool.yaml:5:15: at `spec.template.spec.taints`: ",
    ),
    (
        "pool.yaml",
        "kind: NodePool\nspec:\n  template:\n    spec:\n      taints:\n      - {key: a, effect: Sometimes}\n",
        "pool.yaml:6:9: at `spec.template.spec.taints`: `taints`: invalid taint `a:Sometimes`",
    ),
    ("class.yaml", "kind: AKSNodeClass\nspec:\n  maxPods: many\n", "class.yaml:3:12: at `spec.maxPods`: "),
    (
        "class.yaml",
        "kind: AKSNodeClass\nspec:\n  maxPods: 5\n",
        "class.yaml:3:12: at `spec.maxPods`: `maxPods`: 5 is not between 10 and 250",
    ),
    (
        "class.yaml",
        "kind: AKSNodeClass\nspec:\n  imageFamily: Mine\n",
        "class.yaml:3:16: at `spec.imageFamily`: `imageFamily`: unsupported value `Mine`; expected one of `Ubuntu`",
    ),
    ("claim.yaml", "kind: NodeClaim\nspec:\n  requirements: 1\n", "claim.yaml:3:17: at `spec.requirements`: "),
    ("values.json", "{\"tenant_id\": \"t\",\n \"labels\": 1}", "values.json:2:12: at `labels`: "),
    ("settings.yaml", "[1]\n", "settings.yaml:1:1: expected a map of settings"),
    ("values.json", "{\"tenant_id\": \"t\"}", "values.json:1:1: at `.`: missing field"),
    ("anc.json", "{\"version\": \"v1\",\n \"cluster_config\": {\"vm_type\": {}}}", "anc.json:2:"),
    (
        "config.json",
        "{\"apiVersion\": \"node.kiln.dev/v1alpha1\", \"kind\": \"NodeConfig\", \"spec\": {\"os\":\n {\"swap\": {\"sizeMib\": \"x\"}}}}",
        "config.json:2:",
    ),
    (
        "components.json",
        "{\"GPUContainerImages\": [{\"downloadURL\": \"m/aks-gpu-grid:*\", \"gpuVersion\": {\"latestVersion\": \"1\"}}]}",
        "components.json:1:",
    ),
];

#[test]
fn check_reports_positions_for_every_kind_of_file() {
    for (file, text, expected) in CASES {
        let folder = Folder::new();
        folder.write(file, text);
        let finished = folder.run(&["check", file]);
        assert_eq!(finished.code, Some(1), "{text}: {finished}");
        assert!(finished.stdout.lines().any(|line| line.starts_with(expected)), "{expected}\n{finished}");
        let json = folder.run(&["check", file, "--output", "json"]).json();
        let finding = &json[0]["findings"][0];
        assert!(finding["line"].as_u64() >= Some(1) && finding["column"].as_u64() >= Some(1), "{finding}");
        assert_eq!(finding["file"], file);
    }
}

#[test]
fn render_reports_the_same_positions() {
    for (file, text, expected) in CASES {
        let folder = Folder::new();
        folder.write(file, text);
        let option = match file {
            "settings.yaml" => "--settings",
            "pool.yaml" => "--node-pool",
            "class.yaml" => "--node-class",
            "claim.yaml" => "--node-claim",
            "values.json" => "--values",
            _ => continue,
        };
        let finished = folder.run(&["render", "--to", "node-config", option, file]);
        assert_eq!(finished.code, Some(2), "{finished}");
        // Invalid values are reported before missing ones.
        let position = expected.split(": at").next().unwrap_or(expected);
        let missing = finished.stderr.contains("required fields are not set");
        assert!(finished.stderr.contains(position) || missing, "{expected}\n{finished}");
    }
}

#[test]
fn errors_of_all_files_are_reported_at_once() {
    let folder = Folder::new();
    folder.write("settings.yaml", "a: 1\nb: 2\nlocation: eastus\n");
    folder.write("node-pool.yaml", "kind: NodePool\nmetadata:\n  annotations:\n    bootstrap.kiln.dev/tenantId: t\n");
    let finished = folder.with_sources(&["explain"]);
    assert_eq!(finished.code, Some(2), "{finished}");
    let lines: Vec<&str> = finished.stderr.lines().collect();
    assert_eq!(lines.len(), 3, "{finished}");
    assert!(lines[0].starts_with("error: settings.yaml:1:4: at `a`"), "{finished}");
    assert!(
        lines[2].contains("node-pool.yaml:4:34: at `metadata.annotations.bootstrap.kiln.dev/tenantId`"),
        "{finished}"
    );
    assert!(
        lines[2].contains("`tenantId` cannot be set by node pool; allowed sources: environment, settings"),
        "{finished}"
    );
}

#[test]
fn unknown_field_is_a_warning() {
    let folder = Folder::new();
    folder.write("class.yaml", "kind: AKSNodeClass\nspec:\n  maxPod: 30\n  kubelet: {podPidLimit: 3}\n");
    let finished = folder.run(&["check", "class.yaml"]).success();
    assert!(finished.stdout.contains("class.yaml:3:11: warning: at `spec.maxPod`: unknown field"), "{finished}");
    assert!(finished.stdout.contains("`spec.kubelet.podPidLimit`"), "{finished}");
    assert!(finished.stdout.contains("class.yaml: valid node-class"), "{finished}");
    let example = folder.run(&["check", "settings.yaml", "node-pool.yaml", "node-class.yaml"]).success();
    assert!(!example.stdout.contains("warning"), "{example}");
}

#[test]
fn file_kind_can_be_given_and_unreadable_files_are_named() {
    let folder = Folder::new();
    folder.write("odd.json", "{}");
    assert_eq!(folder.run(&["check", "odd.json"]).code, Some(0));
    let as_values = folder.run(&["check", "odd.json", "--as", "values"]);
    assert!(as_values.code == Some(1) && as_values.stdout.contains("missing field"), "{as_values}");
    let missing = folder.run(&["check", "no.yaml"]);
    assert!(missing.code == Some(2) && missing.stderr.contains("no.yaml: "), "{missing}");
    folder.write("bytes", "");
    std::fs::write(folder.path("bytes"), [0xff, 0xfe]).expect("bytes");
    let bytes = folder.run(&["check", "bytes"]);
    assert!(bytes.code == Some(2) && bytes.stderr.contains("byte 0 is not UTF-8"), "{bytes}");
}

#[test]
fn misspelled_argument_gets_a_suggestion() {
    let finished = Folder::new().with_sources(&["explain", "--set", "maxPod=30"]);
    assert_eq!(finished.code, Some(2), "{finished}");
    assert!(finished.stderr.contains("--set maxPod: unknown field `maxPod`; did you mean `maxPods`?"), "{finished}");
}

#[test]
fn files_of_the_wrong_kind_are_rejected() {
    let folder = Folder::new();
    folder.write("empty", "");
    folder.write("list.yaml", "[1]\n");
    let drift = folder.with_sources(&["drift", "--record", "empty"]);
    assert_eq!(drift.code, Some(2), "{drift}");
    assert!(
        drift.stderr.contains("empty: the file is not a record") && drift.stderr.contains("--to record"),
        "{drift}"
    );
    let class = folder.run(&["render", "--to", "node-config", "--node-class", "list.yaml"]);
    assert!(class.stderr.contains("expected AKSNodeClass, but `kind` is not set"), "{class}");
}

#[test]
fn inputs_are_mutually_exclusive() {
    let folder = Folder::new();
    let both = folder.run(&["render", "--to", "env", "--values", "a", "--settings", "b"]);
    assert_eq!(both.code, Some(2), "{both}");
    let other = folder.run(&["render", "--to", "env", "--values", "a", "--aks-node-config", "b"]);
    assert!(other.code == Some(2) && other.stderr.contains("cannot be used with"), "{other}");
}
