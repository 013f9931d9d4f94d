//! The guides of the fleet: the API server accepts every object in them, and kiln every command.

use std::path::Path;

use serde_json::{Value, json};

use crate::world::{World, plane};

const GUIDES: [&str; 2] = ["docs/guides/fleet.md", "docs/guides/fleet-on-call.md"];

fn page(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The content of all blocks of a language.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let open = format!("```{language}");
    let mut blocks = Vec::new();
    let mut lines = page.lines();
    while let Some(first) = lines.by_ref().find(|line| line.trim() == open) {
        // A block in a list is indented.
        let indent = first.len() - first.trim_start().len();
        let block = lines.by_ref().take_while(|line| line.trim() != "```").map(|line| line.get(indent..).unwrap_or(""));
        blocks.push(format!("{}\n", block.collect::<Vec<_>>().join("\n")));
    }
    blocks
}

#[test]
fn api_server_accepts_every_object_in_the_guides() {
    World::new(0);
    let mut count = 0;
    for guide in GUIDES {
        for block in blocks(&page(guide), "yaml") {
            for document in block.split("\n---\n").filter(|document| !document.trim().is_empty()) {
                let object: Value =
                    serde_saphyr::from_str(document).unwrap_or_else(|error| panic!("{guide}: {error}\n{document}"));
                let text = if object["kind"] == "NodeConfig" && object["spec"].get("document").is_none() {
                    // A document for nodes, not an object: the object contains it.
                    let config = kiln_node_config::NodeConfig::parse(object.to_string().as_bytes());
                    let config = config.unwrap_or_else(|error| panic!("{guide}: {error}\n{document}"));
                    json!({
                        "apiVersion": "node.kiln.dev/v1alpha1", "kind": "NodeConfig", "metadata": {"name": "guide"},
                        "spec": {"document": config.to_json()},
                    })
                    .to_string()
                } else {
                    if let Some(inner) = object["spec"]["document"].as_str() {
                        kiln_node_config::NodeConfig::parse(inner.as_bytes())
                            .unwrap_or_else(|error| panic!("{guide}: {error}"));
                    }
                    document.to_owned()
                };
                if object["kind"] == "RolloutPolicy" {
                    // The schema does not know durations, days and time zones; the operator does.
                    let spec = serde_json::from_value(object["spec"].clone()).expect("a policy");
                    kiln_rollout::Policy::parse(&spec).unwrap_or_else(|error| panic!("{guide}: {error}\n{document}"));
                }
                let dry_run = ["create", "--dry-run=server", "--validate=strict", "-f", "-"];
                let result = plane().run_kubectl_as(plane().kubeconfig(), &dry_run, &text);
                assert!(result.is_ok(), "{guide}: {}\n{document}", result.unwrap_err());
                count += 1;
            }
        }
    }
    assert!(count >= 10, "only {count} objects");
}
