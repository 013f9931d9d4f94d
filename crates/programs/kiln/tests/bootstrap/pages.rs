//! Help texts, man pages, and the examples in them.

use crate::fixture::{Folder, TOKEN};

const VERBS: [&str; 8] = ["render", "explain", "diff", "check", "drift", "hash", "sign", "settings"];

/// Extracts the command lines of a help text.
fn examples(help: &str) -> Vec<Vec<String>> {
    let lines = help.lines().filter_map(|line| line.strip_prefix("  kiln bootstrap "));
    lines.map(|line| line.split_whitespace().map(str::to_owned).collect()).collect()
}

/// A folder with all files that the examples use.
fn example_folder() -> Folder {
    let folder = Folder::new();
    for (name, from) in [("pool.yaml", "node-pool.yaml"), ("class.yaml", "node-class.yaml")] {
        folder.write(name, &folder.read(from));
    }
    for stage in ["staging", "production"] {
        for file in crate::fixture::FILES {
            folder.write(&format!("{stage}/{file}"), &folder.read(file));
        }
    }
    let anc = folder.with_sources(&["render", "--to", "aks-node-config"]).success().stdout;
    folder.write("config.json", &anc);
    let config = folder.with_sources(&["render", "--to", "node-config"]).success().stdout;
    for name in ["old.json", "new.json", "running.json", "node-config.json"] {
        folder.write(name, &config);
    }
    folder.write("signing-key.pem", crate::fixture::SIGNING_KEY);
    folder.write(
        "values.json",
        &format!(
            r#"{{"kubernetes_version": "1.33.7", "ca_bundle": "Q0E=", "api_server_name": "a.example", "bootstrap_token": "{TOKEN}", "tenant_id": "t",
                "subscription_id": "s", "location": "eastus", "resource_group": "g", "network_plugin": "none",
                "subnet_id": "/subscriptions/s/resourceGroups/g/providers/Microsoft.Network/virtualNetworks/n/subnets/sub"}}"#
        ),
    );
    folder
        .write("claim.yaml", "kind: NodeClaim\nmetadata: {name: c}\nstatus: {nodeName: n, providerID: azure:///vm}\n");
    folder.write("node.yaml", "kind: Node\nmetadata: {name: n}\nstatus: {nodeInfo: {kubeletVersion: v1.33.7}}\n");
    folder
}

#[test]
fn help_examples_run() {
    let folder = example_folder();
    let mut ran = 0;
    for verb in [&[][..], &["render"], &["explain"], &["diff"], &["check"], &["drift"], &["hash"], &["sign"]] {
        // Wide enough that no example is wrapped.
        let help = folder.run_with(&[("COLUMNS", "400")], &[verb, &["--help"]].concat()).success().stdout;
        for example in examples(&help) {
            let words: Vec<&str> = example.iter().map(String::as_str).collect();
            // Examples that need a cluster are covered by the tests that have one.
            if words.contains(&"--kubeconfig") || words.contains(&"--from-cluster") {
                continue;
            }
            let finished = folder.run(&words);
            // The second example of `drift` compares with the record that the first one writes, so it exits with 0.
            assert_eq!(finished.code, Some(0), "{finished}");
            ran += 1;
        }
    }
    assert!(ran >= 20, "{ran}");
}

#[test]
fn every_command_has_a_man_page() {
    let folder = Folder::new();
    let man = std::process::Command::new(env!("CARGO_BIN_EXE_kiln")).arg("man").arg(folder.path(".")).status();
    assert!(man.expect("kiln runs").success());
    for verb in VERBS {
        let page = folder.read(&format!("kiln-bootstrap-{verb}.1"));
        assert!(page.contains(&format!("kiln bootstrap {verb}")), "{verb}");
    }
}

/// The guide contains the golden files. After `KILN_BLESS=1`, update the guide.
#[test]
fn guide_shows_current_output() {
    let folder = Folder::new();
    folder.write("settings.yaml", "location: eastus\nlocatoin: westus\nmaxPods: 30\n");
    crate::fixture::golden("check.txt", &folder.run(&["check", "settings.yaml"]).stdout);
    let guide = include_str!("../../../../../docs/guides/bootstrap.md");
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/bootstrap/golden");
    for name in ["explain-subnet.txt", "check.txt", "drift.txt", "diff-node-config.txt"] {
        let output = std::fs::read_to_string(format!("{golden}/{name}")).expect("a golden file");
        assert!(guide.contains(output.trim_end()), "docs/guides/bootstrap.md does not contain {name}:\n{output}");
    }
    let karpenter_guide = include_str!("../../../../../docs/guides/bootstrap-from-karpenter.md");
    let hash = Folder::new().run(&["hash", "--node-class", "node-class.yaml"]).success().stdout;
    assert!(karpenter_guide.contains(hash.trim()), "{hash}");
}
