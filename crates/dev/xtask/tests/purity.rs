//! No crate violates the rings, and violations are found.

use std::fs;
use std::path::Path;

use tempfile::TempDir;
use xtask::rings::{self, Breach};
use xtask::workspace::{Workspace, root};

fn breaches(folder: &Path) -> Vec<Breach> {
    let workspace = Workspace::load(folder).unwrap();
    let mut breaches = rings::misplaced(folder, &workspace);
    breaches.extend(rings::impure(folder, &workspace).unwrap());
    breaches
}

/// A copy of the workspace for cargo's resolver: all manifests, with empty source files.
fn copy() -> TempDir {
    let copy = TempDir::new().unwrap();
    for name in ["Cargo.toml", "Cargo.lock"] {
        fs::copy(root().join(name), copy.path().join(name)).unwrap();
    }
    let copied = |path: &Path| copy.path().join(path.strip_prefix(root()).unwrap());
    for package in Workspace::load(&root()).unwrap().packages {
        for source in &package.sources {
            fs::create_dir_all(copied(source).parent().unwrap()).unwrap();
            fs::write(copied(source), "").unwrap();
        }
        fs::copy(&package.manifest, copied(&package.manifest)).unwrap();
    }
    copy
}

/// Adds a line to a section of a manifest in the copy.
fn plant(copy: &TempDir, manifest: &str, section: &str, line: &str) {
    let path = copy.path().join(manifest);
    let text = fs::read_to_string(&path).unwrap();
    let text = if text.contains(section) {
        text.replacen(section, &format!("{section}\n{line}"), 1)
    } else {
        format!("{text}\n{section}\n{line}\n")
    };
    fs::write(&path, text).unwrap();
}

/// The violations in a copy that the repository itself does not have.
fn new_breaches(copy: &TempDir) -> Vec<Breach> {
    let old = breaches(&root());
    breaches(copy.path()).into_iter().filter(|breach| !old.contains(breach)).collect()
}

#[test]
fn no_crate_violates_its_ring() {
    let breaches = breaches(&root());
    let lines: Vec<_> = breaches.iter().map(ToString::to_string).collect();
    assert!(breaches.is_empty(), "{}", lines.join("\n"));
}

#[test]
fn the_whole_dependency_tree_is_checked() {
    let tree = rings::normal_tree(&root(), "kiln-sim-azure").unwrap();
    assert!(tree.iter().any(|name| name == "tokio"), "the simulator uses tokio: {tree:?}");
    let tree = rings::normal_tree(&root(), "kiln-types").unwrap();
    assert!(tree.iter().any(|name| name == "kiln-types") && !tree.iter().any(|name| name == "tokio"), "{tree:?}");
}

#[test]
fn unchanged_copy_has_no_new_violations() {
    assert_eq!(new_breaches(&copy()), []);
}

#[test]
fn tokio_in_a_pure_crate_is_found() {
    let copy = copy();
    plant(&copy, "crates/core/prototype/Cargo.toml", "[dependencies]", "tokio = { workspace = true }");
    let expected = Breach::Impure { name: "kiln-prototype".to_owned(), contains: "tokio".to_owned() };
    assert_eq!(new_breaches(&copy), [expected]);
}

#[test]
fn client_in_a_pure_crate_is_found_with_its_dependencies() {
    let copy = copy();
    plant(&copy, "crates/core/types/Cargo.toml", "[dependencies]", "azure_core = { workspace = true }");
    let breaches = new_breaches(&copy);
    for contains in ["azure_core", "tokio"] {
        let expected = Breach::Impure { name: "kiln-types".to_owned(), contains: contains.to_owned() };
        assert!(breaches.contains(&expected), "{breaches:?}");
    }
}

#[test]
fn pure_crate_may_use_tokio_in_its_tests() {
    let copy = copy();
    plant(&copy, "crates/core/prototype/Cargo.toml", "[dev-dependencies]", "tokio = { workspace = true }");
    assert_eq!(new_breaches(&copy), []);
}

#[test]
fn optional_edge_in_a_pure_crate_is_found() {
    let copy = copy();
    plant(
        &copy,
        "crates/core/prototype/Cargo.toml",
        "[dependencies]",
        "kiln-azure = { workspace = true, optional = true }",
    );
    let expected = Breach::Direction { from: "kiln-prototype".to_owned(), to: "kiln-azure".to_owned() };
    assert_eq!(new_breaches(&copy), [expected]);
}

#[test]
fn simulator_must_not_use_an_edge() {
    let copy = copy();
    plant(&copy, "crates/sim/azure/Cargo.toml", "[dependencies]", "kiln-azure = { workspace = true }");
    let expected = Breach::Direction { from: "kiln-sim-azure".to_owned(), to: "kiln-azure".to_owned() };
    assert_eq!(new_breaches(&copy), [expected]);
}

#[test]
fn crate_outside_the_rings_is_found() {
    let copy = copy();
    let manifest = copy.path().join("crates/core/tls/Cargo.toml");
    let elsewhere = copy.path().join("crates/tls");
    fs::rename(manifest.parent().unwrap(), &elsewhere).unwrap();
    let root = copy.path().join("Cargo.toml");
    let text = fs::read_to_string(&root).unwrap().replace("crates/core/tls", "crates/tls");
    fs::write(&root, text.replace("members = [", "members = [\"crates/tls\", ")).unwrap();
    let breaches = rings::misplaced(copy.path(), &Workspace::load(copy.path()).unwrap());
    assert_eq!(breaches, [Breach::Unplaced("kiln-tls".to_owned())]);
}

#[test]
fn every_ring_has_crates() {
    let workspace = Workspace::load(&root()).unwrap();
    for ring in &rings::RINGS {
        assert!(workspace.packages.iter().any(|package| rings::ring(&root(), package) == Some(ring)), "{ring:?}");
    }
}
