//! Rules for the files of the repository.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use xtask::workspace::{Workspace, root};

/// All text files that git tracks or would track.
fn texts() -> Vec<(PathBuf, String)> {
    let output = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "-z"])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let names = String::from_utf8(output.stdout).unwrap();
    let texts: Vec<_> = names
        .split_terminator('\0')
        .filter_map(|name| Some((PathBuf::from(name), fs::read_to_string(root().join(name)).ok()?)))
        .collect();
    assert!(texts.iter().any(|(path, _)| path == Path::new("Cargo.toml")), "git lists no Cargo.toml");
    texts
}

/// The lines that contain a text, as `path:line: text`.
fn search(texts: &[(PathBuf, String)], needle: &str, relevant: impl Fn(&Path) -> bool) -> Vec<String> {
    let mut lines = Vec::new();
    for (path, text) in texts.iter().filter(|(path, _)| relevant(path)) {
        for (index, line) in text.lines().enumerate() {
            if line.contains(needle) {
                lines.push(format!("{}:{}: {}", path.display(), index + 1, line.trim()));
            }
        }
    }
    lines
}

fn is_rust(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "rs")
}

#[test]
fn no_file_has_stubs_or_ignored_tests() {
    let texts = texts();
    // In two pieces, so that this file does not contain them.
    for (head, tail) in [("todo", "!("), ("unimplemented", "!("), ("#[ign", "ore"), ("not yet imple", "mented")] {
        let found = search(&texts, &format!("{head}{tail}"), is_rust);
        assert!(found.is_empty(), "{}", found.join("\n"));
    }
}

#[test]
fn search_finds_this_test() {
    let found = search(&texts(), "fn search_finds_this_test", is_rust);
    assert_eq!(found.len(), 2, "the definition and the argument: {found:?}");
}

#[test]
fn no_file_names_a_package_registry() {
    let texts = texts();
    for (head, tail) in [
        ("index.crates", ".io"),
        ("static.crates", ".io"),
        ("https://crates", ".io"),
        ("pypi", ".org"),
        ("pythonhosted", ".org"),
        ("npmjs", ".org"),
        ("npmjs", ".com"),
        ("proxy.golang", ".org"),
        ("sum.golang", ".org"),
        ("artifact", "ory"),
    ] {
        let found = search(&texts, &format!("{head}{tail}"), |_| true);
        assert!(found.is_empty(), "{}", found.join("\n"));
    }
}

#[test]
fn every_locked_crate_comes_from_the_default_registry() {
    let lock = fs::read_to_string(root().join("Cargo.lock")).unwrap();
    let default = concat!("source = \"registry+https://github.com/rust-lang/crates.io", "-index\"");
    let sources: Vec<_> = lock.lines().filter(|line| line.starts_with("source = ")).collect();
    assert!(!sources.is_empty());
    for source in sources {
        assert_eq!(source, default);
    }
}

#[test]
fn ci_runs_only_the_suite() {
    let script = fs::read_to_string(root().join(".ci/run")).unwrap();
    let commands: Vec<_> = script.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    assert_eq!(commands, ["set -euo pipefail", r#"cd "$(dirname "$0")/..""#, "exec cargo xtask test"]);
    assert!(script.starts_with("#!/usr/bin/env bash\n"));
}

#[cfg(unix)]
#[test]
fn ci_script_is_executable() {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = fs::metadata(root().join(".ci/run")).unwrap().permissions().mode();
    assert_eq!(mode & 0o111, 0o111);
}

#[test]
fn readme_has_the_two_commands() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    for command in ["cargo run --release -p kiln -- demo", "cargo xtask test"] {
        assert!(readme.lines().any(|line| line.trim() == command), "README.md has no line `{command}`");
    }
}

#[test]
fn every_crate_inherits_lints_and_package_data() {
    for package in Workspace::load(&root()).unwrap().packages {
        let manifest = fs::read_to_string(&package.manifest).unwrap();
        for wanted in [
            "[lints]\nworkspace = true\n",
            "edition.workspace = true\n",
            "license.workspace = true\n",
            "publish.workspace = true\n",
        ] {
            assert!(manifest.contains(wanted), "{} lacks {wanted:?}", package.manifest.display());
        }
    }
}

#[test]
fn every_dependency_inherits_its_version() {
    for package in Workspace::load(&root()).unwrap().packages {
        let manifest = fs::read_to_string(&package.manifest).unwrap();
        let mut in_dependencies = false;
        for line in manifest.lines() {
            if line.starts_with('[') {
                in_dependencies = line.ends_with("dependencies]");
            } else if in_dependencies && line.contains('=') && !line.starts_with('#') {
                assert!(line.contains("workspace = true"), "{}: {line}", package.manifest.display());
            }
        }
    }
}

#[test]
fn test_targets_of_the_full_tier_require_its_feature() {
    for package in Workspace::load(&root()).unwrap().packages {
        let manifest = fs::read_to_string(&package.manifest).unwrap();
        for name in package.test_targets.iter().filter(|name| name.starts_with("az_")) {
            let declared = format!("name = \"{name}\"\nrequired-features = [\"tier2\"]");
            assert!(
                manifest.contains(&declared),
                "{} must declare the test `{name}`:\n[[test]]\n{declared}",
                package.manifest.display()
            );
        }
    }
}

/// Whether a line of Rust starts a public item that needs a doc comment.
fn is_documentable(line: &str) -> bool {
    let Some(item) = line.trim_start().strip_prefix("pub ") else { return false };
    // In a macro, the comment is at the call.
    let kinds = ["fn ", "async fn ", "const fn ", "struct ", "enum ", "trait "];
    kinds.iter().any(|kind| item.strip_prefix(kind).is_some_and(|name| !name.starts_with('$')))
}

#[test]
fn every_public_function_type_and_trait_is_documented() {
    let mut bare = Vec::new();
    for (path, text) in texts().iter().filter(|(path, _)| is_rust(path) && path.iter().any(|part| part == "src")) {
        let lines: Vec<&str> = text.lines().take_while(|line| !line.starts_with("#[cfg(test)]")).collect();
        for (index, line) in lines.iter().enumerate().filter(|(_, line)| is_documentable(line)) {
            // Attributes may be between the comment and the item; a multi-line attribute ends in `)]`.
            let above = lines[..index].iter().rev().map(|line| line.trim_start());
            let mut above = above
                .skip_while(|line| !line.is_empty() && !line.starts_with("//") && !line.ends_with(['}', '{', ';']));
            if !above.next().is_some_and(|line| line.starts_with("///")) {
                bare.push(format!("{}:{}: {}", path.display(), index + 1, line.trim()));
            }
        }
    }
    assert!(bare.is_empty(), "{}", bare.join("\n"));
}

/// The paths of the repository in the code spans of a page. A path may end in a placeholder (`NAME`) or a pattern (`*`): then the part
/// before it counts.
fn named_paths(page: &str) -> impl Iterator<Item = &str> {
    let folders = ["crates/", "docs/", "tests/", "units/", "charts/"];
    let is_fixed =
        |segment: &&str| !(segment.contains(['*', '{', '<']) || segment.len() > 1 && is_placeholder(segment));
    page.split('`')
        .skip(1)
        .step_by(2)
        .filter(move |span| {
            folders.iter().any(|folder| span.starts_with(folder)) && !span.contains(char::is_whitespace)
        })
        .map(move |span| {
            let length: usize = span
                .split_inclusive('/')
                .take_while(|segment| is_fixed(&segment.trim_end_matches('/')))
                .map(str::len)
                .sum();
            &span[..length]
        })
}

fn is_placeholder(segment: &str) -> bool {
    segment.chars().all(|c| c.is_ascii_uppercase() || c == '-')
}

#[test]
fn paths_in_the_documentation_exist() {
    let is_page = |path: &Path| {
        let name = path.to_string_lossy();
        path.starts_with("docs") && name.ends_with(".md")
            || ["ARCHITECTURE.md", "CONTRIBUTING.md", "README.md"].contains(&&*name)
    };
    let mut missing = Vec::new();
    let mut checked = 0;
    for (page, text) in texts().iter().filter(|(path, _)| is_page(path)) {
        for path in named_paths(text) {
            checked += 1;
            if !root().join(path).exists() {
                missing.push(format!("{}: `{path}` does not exist", page.display()));
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
    assert!(checked > 20, "only {checked} paths found");
}

#[test]
fn a_placeholder_or_pattern_ends_the_path_that_must_exist() {
    let page =
        "`crates/core/*/src`, `tests/node/NAME`, `crates/{core,dev}`, `tests/floor.json`, `cargo test`, `docs/a b`";
    let paths: Vec<_> = named_paths(page).collect();
    assert_eq!(paths, ["crates/core/", "tests/node/", "crates/", "tests/floor.json"]);
}
