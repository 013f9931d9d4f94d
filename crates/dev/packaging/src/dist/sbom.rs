//! The software bill of materials: the crates that are compiled into kiln and kilnd, in the format of `CycloneDX` 1.5.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::binary::command_line;
use crate::{Architecture, Error};

/// The programs of a release.
const ROOTS: [&str; 2] = ["kiln", "kilnd"];

/// Writes the document from the answers of `cargo metadata`, one for each target, and the text of `Cargo.lock`, which has the checksums.
pub fn cyclone_dx(metadata: &[Value], lock: &str, version: &str) -> Result<String, Error> {
    let checksums = checksums(lock);
    let (mut components, mut dependencies) = (BTreeMap::new(), BTreeMap::<String, BTreeSet<String>>::new());
    for answer in metadata {
        let packages: BTreeMap<&str, &Value> = list(&answer["packages"]).map(|one| (text(&one["id"]), one)).collect();
        let nodes: BTreeMap<&str, &Value> =
            list(&answer["resolve"]["nodes"]).map(|one| (text(&one["id"]), one)).collect();
        let is_root = |package: &&Value| ROOTS.contains(&text(&package["name"])) && package["source"].is_null();
        let mut open: Vec<&str> = packages.values().copied().filter(is_root).map(|one| text(&one["id"])).collect();
        if open.len() != ROOTS.len() {
            return Err(Error::Metadata { missing: ROOTS.join(", ") });
        }
        let mut seen = BTreeSet::new();
        while let Some(id) = open.pop() {
            let (Some(package), Some(node)) = (packages.get(id), nodes.get(id)) else { continue };
            if !seen.insert(id) {
                continue;
            }
            components.entry(purl(package)).or_insert_with(|| component(package, &checksums));
            let used = list(&node["deps"]).filter(|dependency| is_compiled(dependency));
            let used: Vec<&str> = used.map(|dependency| text(&dependency["pkg"])).collect();
            let purls = used.iter().filter_map(|id| packages.get(id)).map(|package| purl(package));
            dependencies.entry(purl(package)).or_default().extend(purls);
            open.extend(used);
        }
    }
    let depends = |(from, on): (&String, &BTreeSet<String>)| json!({"ref": from, "dependsOn": on});
    let document = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {"type": "application", "name": "kiln", "version": version, "bom-ref": format!("kiln-{version}")}},
        "components": components.into_values().collect::<Vec<Value>>(),
        "dependencies": dependencies.iter().map(depends).collect::<Vec<Value>>(),
    });
    Ok(format!("{document:#}\n"))
}

/// The document of this source tree.
pub fn of_workspace(root: &Path, architectures: &[Architecture], version: &str) -> Result<String, Error> {
    let mut metadata = Vec::new();
    for architecture in architectures {
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.current_dir(root).args(["metadata", "--locked", "--format-version", "1", "--filter-platform"]);
        command.arg(format!("{}-unknown-linux-musl", architecture.rust()));
        let line = command_line(&command);
        let output = command.output().map_err(|source| Error::Command { line: line.clone(), source })?;
        if !output.status.success() {
            return Err(Error::Exit { line, status: output.status.to_string() });
        }
        metadata.push(serde_json::from_slice(&output.stdout).map_err(|source| Error::Json { line, source })?);
    }
    let lock = root.join("Cargo.lock");
    let lock = fs::read_to_string(&lock).map_err(Error::file(&lock))?;
    cyclone_dx(&metadata, &lock, version)
}

/// Whether a dependency is compiled into the program or runs when it is built; not if only tests use it.
fn is_compiled(dependency: &Value) -> bool {
    list(&dependency["dep_kinds"]).any(|kind| kind["kind"] != "dev")
}

fn component(package: &Value, checksums: &BTreeMap<(String, String), String>) -> Value {
    let (name, version) = (text(&package["name"]), text(&package["version"]));
    let mut component = json!({
        "type": "library", "name": name, "version": version, "purl": purl(package), "bom-ref": purl(package),
    });
    if let Some(licence) = package["license"].as_str() {
        // The slash is an old form of OR, which is not valid in an expression.
        component["licenses"] = json!([{"expression": licence.replace('/', " OR ")}]);
    }
    if let Some(checksum) = checksums.get(&(name.to_owned(), version.to_owned())) {
        component["hashes"] = json!([{"alg": "SHA-256", "content": checksum}]);
    }
    component
}

fn purl(package: &Value) -> String {
    format!("pkg:cargo/{}@{}", text(&package["name"]), text(&package["version"]))
}

/// The checksums in `Cargo.lock`, by name and version.
fn checksums(lock: &str) -> BTreeMap<(String, String), String> {
    let mut found = BTreeMap::new();
    for block in lock.split("[[package]]") {
        let field = |name: &str| {
            let start = format!("{name} = \"");
            let mut lines = block.lines();
            lines.find_map(|line| line.strip_prefix(&start)?.strip_suffix('"')).map(str::to_owned)
        };
        if let (Some(name), Some(version), Some(checksum)) = (field("name"), field("version"), field("checksum")) {
            found.insert((name, version), checksum);
        }
    }
    found
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata() -> Value {
        let package = |name: &str, source: Value| json!({"id": format!("id-{name}"), "name": name, "version": "1.0.0", "license": "MIT/Apache-2.0", "source": source});
        let node = |name: &str, deps: &[(&str, Value)]| {
            let deps =
                deps.iter().map(|(name, kind)| json!({"pkg": format!("id-{name}"), "dep_kinds": [{"kind": kind}]}));
            json!({"id": format!("id-{name}"), "deps": deps.collect::<Vec<Value>>()})
        };
        json!({
            "packages": [package("kiln", Value::Null), package("kilnd", Value::Null), package("a", json!("r")), package("t", json!("r"))],
            "resolve": {"nodes": [
                node("kiln", &[("a", Value::Null), ("t", json!("dev"))]), node("kilnd", &[("a", json!("build"))]), node("a", &[]), node("t", &[]),
            ]},
        })
    }

    #[test]
    fn crates_of_tests_are_left_out_and_checksums_come_from_the_lock_file() {
        let lock = "[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nsource = \"x\"\nchecksum = \"abc\"\n";
        let document = cyclone_dx(&[metadata(), metadata()], lock, "1.0.0").expect("a document");
        let document: Value = serde_json::from_str(&document).expect("JSON");
        let names: Vec<&str> = list(&document["components"]).map(|one| text(&one["name"])).collect();
        assert_eq!(names, ["a", "kiln", "kilnd"]);
        assert_eq!(document["components"][0]["hashes"], json!([{"alg": "SHA-256", "content": "abc"}]));
        assert_eq!(document["components"][0]["licenses"], json!([{"expression": "MIT OR Apache-2.0"}]));
        assert_eq!(
            document["dependencies"][1],
            json!({"ref": "pkg:cargo/kiln@1.0.0", "dependsOn": ["pkg:cargo/a@1.0.0"]})
        );
    }

    #[test]
    fn metadata_without_a_program_is_an_error() {
        let mut answer = metadata();
        answer["packages"].as_array_mut().expect("a list").remove(0);
        assert!(cyclone_dx(&[answer], "", "1.0.0").is_err());
    }
}
