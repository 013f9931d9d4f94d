//! Checks every published example like a real exchange.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use super::super::document::{Node, join};
use super::super::{Exchange, Finding, Specs, require_specs};

#[test]
fn published_examples_have_no_findings_except_the_listed_mistakes() {
    let specs = require_specs();
    let mut seen = BTreeSet::new();
    let mut wrong: BTreeSet<(String, String)> = BTreeSet::new();
    for (file, root) in specs.contract.documents.roots().enumerate() {
        for (path, methods) in root.members("paths") {
            for (method, operation) in methods.value.as_object().into_iter().flatten() {
                let place = (file, path.clone(), method.clone());
                for example in Example::of(methods.at(operation), &place) {
                    for finding in example.findings(specs) {
                        wrong.insert((example.name(), finding.to_string()));
                    }
                    seen.insert(example.file);
                }
            }
        }
    }
    let unlisted: Vec<String> = wrong
        .iter()
        .filter(|(name, _)| !MISTAKES.iter().any(|(listed, _, _)| name == listed))
        .map(|(name, finding)| format!("{name}: {finding}"))
        .collect();
    assert!(unlisted.is_empty(), "{}", unlisted.join("\n"));
    for (listed, expected, reason) in MISTAKES {
        let found = wrong.iter().filter(|(name, _)| name == listed).count();
        assert_eq!(found, *expected, "{listed}, {reason}");
    }
    let published: BTreeSet<PathBuf> = specs.contract.documents.roots().flat_map(published_next_to).collect();
    assert_eq!(seen, published, "each example belongs to an operation");
    assert!(seen.len() > 600, "{} examples are too few to be all", seen.len());
}

/// Examples that violate their own specification: file, number of findings, and the mistake.
const MISTAKES: &[(&str, usize, &str)] = &[
    ("AgentPools_Stop.json", 2, "null for an integer that is not nullable"),
    ("CapacityReservationGroup_Update_MaximumSet_Gen.json", 1, "sends the instance view"),
    ("CapacityReservation_Update_MaximumSet_Gen.json", 1, "sends the instance view"),
    ("DedicatedHostGroup_Update_MaximumSet_Gen.json", 1, "sends the instance view"),
    ("DedicatedHost_Update_MaximumSet_Gen.json", 1, "sends the instance view"),
    ("ManagedClustersCreate_UpdateWithEnableAzureRBAC.json", 1, "null for an array"),
    ("PostDeploymentWhatIfOnResourceGroup.json", 1, "a text where the schema has an object"),
    ("PostDeploymentWhatIfOnSubscription.json", 1, "a text where the schema has an object"),
    ("PutDeploymentAtManagementGroup.json", 2, "null for a location"),
    ("PutDeploymentAtScope.json", 2, "null for a location"),
    ("PutDeploymentAtTenant.json", 2, "null for a location"),
    ("VirtualMachineScaleSetVM_Get_InstanceViewAutoPlacedOnDedicatedHostGroup.json", 8, "null for what is absent"),
    ("VirtualMachineScaleSetVM_Update_MaximumSet_Gen.json", 2, "sends the SKU and the instance view"),
    ("VirtualMachine_AssessPatches.json", 1, "null for the error that did not happen"),
    ("VirtualMachine_Get_InstanceView.json", 2, "null for the error that did not happen"),
    ("VirtualMachine_InstallPatches.json", 1, "null for the error that did not happen"),
];

/// The files in the `examples` folder next to a specification.
fn published_next_to(root: Node<'_>) -> Vec<PathBuf> {
    let folder = root.path().with_file_name("examples");
    let mut found = Vec::new();
    if folder.is_dir() {
        files(&folder, &mut found);
    }
    found
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("the folder is readable") {
        let path = entry.expect("the entry is readable").path();
        if path.is_dir() {
            files(&path, found);
        } else {
            found.push(path);
        }
    }
}

struct Example<'a> {
    operation: Node<'a>,
    place: (usize, String, String),
    file: PathBuf,
    content: Value,
}

impl<'a> Example<'a> {
    fn of(operation: Node<'a>, place: &(usize, String, String)) -> Vec<Self> {
        let folder = operation.path().parent().expect("a file is in a folder");
        let examples = operation.members("x-ms-examples");
        let load = |(_, example): (_, Node<'a>)| {
            let file = join(folder, example.text("$ref").expect("an example is a reference"));
            let text = fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
            let content = serde_json::from_slice(&text).expect("an example is JSON");
            Self { operation, place: place.clone(), file, content }
        };
        examples.map(load).collect()
    }

    fn name(&self) -> String {
        self.file.file_name().map(|name| name.to_string_lossy().into_owned()).expect("a file has a name")
    }

    fn findings(&self, specs: &Specs) -> Vec<Finding> {
        let responses = self.content["responses"].as_object().expect("an example has responses");
        let one = |(status, response): (&String, &Value)| {
            let exchange = Exchange {
                method: self.place.2.clone(),
                url: self.url(),
                request: self.argument_in("body").cloned(),
                status: status.parse().expect("a status is a number"),
                response: response.get("body").cloned(),
            };
            specs.check(&exchange)
        };
        responses.iter().flat_map(one).collect()
    }

    fn arguments(&self) -> impl Iterator<Item = (Node<'a>, &Value)> {
        let parameters = self.operation.items("parameters").map(Node::resolved);
        parameters.filter_map(|parameter| {
            let name = parameter.text("name")?;
            Some((parameter, self.content["parameters"].get(name)?))
        })
    }

    fn argument_in(&self, place: &str) -> Option<&Value> {
        let mut arguments = self.arguments();
        let (_, value) = arguments.find(|(parameter, _)| parameter.text("in") == Some(place))?;
        Some(value)
    }

    fn url(&self) -> String {
        let root = self.operation.documents().root(self.place.0);
        let mut url = format!("{}{}", root.text("basePath").unwrap_or_default(), self.place.1);
        let mut query = Vec::new();
        for (parameter, value) in self.arguments() {
            let name = parameter.text("name").expect("a parameter has a name");
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            let encoded = utf8_percent_encode(&value, NON_ALPHANUMERIC).to_string();
            match parameter.text("in") {
                Some("path") if parameter.flag("x-ms-skip-url-encoding") => {
                    url = url.replace(&format!("{{{name}}}"), &value);
                }
                Some("path") => url = url.replace(&format!("{{{name}}}"), &encoded),
                Some("query") => query.push(format!("{name}={encoded}")),
                _ => {}
            }
        }
        format!("{url}?{}", query.join("&"))
    }
}
