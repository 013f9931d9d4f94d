//! What is written for whole documents, to be read in the diff. `KILN_BLESS=1` writes the files anew.

use std::fmt::Write as _;
use std::path::PathBuf;

use kiln_node_config::NodeConfig;
use kiln_node_plan::{Artifact, Content, Credential, Desired, Facts, Image, Observed, Plan};
use kiln_types::SecretBytes;

use crate::support::facts;

const EXAMPLE: &str = include_str!("../../../node-config/tests/example.json");
const TOKEN: &str = "abcdef.0123456789abcdef";

fn example() -> NodeConfig {
    NodeConfig::parse(EXAMPLE.as_bytes()).expect("the example")
}

fn with_token() -> Facts {
    let credential = Credential::parse(&SecretBytes::new(TOKEN)).expect("a token");
    Facts { credential: Some(credential), ..facts() }
}

fn show(out: &mut String, artifact: &Artifact) {
    let affects: Vec<String> =
        artifact.affects.iter().map(|affect| format!(" {} {}", affect.effect, affect.unit)).collect();
    let (owner, mode) = (&artifact.owner, artifact.mode);
    let _ = writeln!(out, "== {} {mode:04o} {}:{}{}", artifact.path, owner.user, owner.group, affects.concat());
    match &artifact.content {
        Content::Link(target) => {
            let _ = writeln!(out, "-> {target}");
        }
        Content::Secret(_) => out.push_str("***\n"),
        Content::Bytes(bytes) | Content::Seed(bytes) => {
            let text = String::from_utf8_lossy(bytes);
            out.push_str(&text);
            out.push_str(if text.ends_with('\n') || text.is_empty() { "" } else { "\n" });
        }
    }
}

fn whole(desired: &Desired) -> String {
    let mut out = String::new();
    for artifact in desired.files.iter().filter(|file| file.path != "config.json").chain(desired.outside()) {
        show(&mut out, artifact);
    }
    for block in &desired.blocks {
        let _ = writeln!(out, "== in {}\n{}", block.path, block.text.trim_end());
    }
    for setting in &desired.kernel {
        let _ = writeln!(out, "== set {} {}", setting.path, setting.value);
    }
    for late in desired.late.iter().filter(|late| !matches!(late, kiln_node_plan::Late::Unit(_))) {
        let _ = writeln!(out, "== late {late:?}");
    }
    let _ = writeln!(out, "== accounts {:?}\n== host name {:?}", desired.accounts, desired.host_name);
    out
}

fn golden(name: &str, made: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if std::env::var_os("KILN_BLESS").is_some() {
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(&path, made).expect("written");
    }
    let have = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(have, made, "{} is out of date: run the test with KILN_BLESS=1 and read the diff", path.display());
}

#[test]
fn the_example_makes_these_files() {
    golden("example.txt", &whole(&Desired::of(&example(), &with_token()).expect("fits")));
}

#[test]
fn the_older_runtime_gets_the_older_form() {
    let mut config = example();
    config.spec.runtime.version = "1.7.27".to_owned();
    config.spec.runtime.default_runtime = "nvidia-container-runtime".to_owned();
    let image = Image { sandbox_image: "pause:3.10".to_owned(), ..Image::default() };
    let desired = Desired::of(&config, &Facts { image, ..with_token() }).expect("fits");
    golden("containerd-1.toml", desired.text("containerd.toml").expect("a configuration"));
}

#[test]
fn the_credential_shows_nowhere() {
    let desired = Desired::of(&example(), &with_token()).expect("fits");
    let mut text = format!("{:?}{desired:?}{}", with_token(), whole(&desired));
    for file in desired.files.iter().chain(desired.outside()) {
        if matches!(file.content, Content::Secret(_)) {
            assert_eq!(file.mode, 0o600, "{}", file.path);
        } else {
            text.push_str(&String::from_utf8_lossy(file.content.expose()));
        }
    }
    let plan = Plan::of(None, &example(), &desired, &Observed::default());
    let _ = write!(text, "{plan:?}{}", serde_json::to_string(&plan).expect("JSON"));
    text.push_str(&String::from_utf8_lossy(plan.manifest.artifact().content.expose()));
    assert!(!text.contains("0123456789abcdef"));
    let kept = desired.file("bootstrap-kubeconfig").expect("a kubeconfig");
    assert!(String::from_utf8_lossy(kept.content.expose()).contains(TOKEN), "it is where it must be");
}
