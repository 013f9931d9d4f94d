//! The rendered files of whole documents, as golden files. `KILN_BLESS=1` rewrites them.

use std::fmt::Write as _;
use std::path::PathBuf;

use kiln_node_config::NodeConfig;
use kiln_node_plan::{Credential, Desired, DesiredFile, Facts, FileContent, Image, Observed, Plan};
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

fn show(out: &mut String, file: &DesiredFile) {
    let affects: Vec<String> =
        file.affects.iter().map(|affect| format!(" {} {}", affect.effect, affect.unit)).collect();
    let (owner, mode) = (&file.owner, file.mode);
    let _ = writeln!(out, "== {} {mode:04o} {}:{}{}", file.path, owner.user, owner.group, affects.concat());
    match &file.content {
        FileContent::Link(target) => {
            let _ = writeln!(out, "-> {target}");
        }
        FileContent::Secret(_) => out.push_str("***\n"),
        FileContent::Bytes(bytes) | FileContent::Seed(bytes) => {
            let text = String::from_utf8_lossy(bytes);
            out.push_str(&text);
            out.push_str(if text.ends_with('\n') || text.is_empty() { "" } else { "\n" });
        }
    }
}

fn whole(desired: &Desired) -> String {
    let mut out = String::new();
    for file in desired.files.iter().filter(|file| file.path != "config.json").chain(desired.outside()) {
        show(&mut out, file);
    }
    for block in &desired.blocks {
        let _ = writeln!(out, "== in {}\n{}", block.path, block.text.trim_end());
    }
    for setting in &desired.kernel {
        let _ = writeln!(out, "== set {} {}", setting.path, setting.value);
    }
    for deferred in desired.deferred.iter().filter(|one| !matches!(one, kiln_node_plan::Deferred::Unit(_))) {
        let _ = writeln!(out, "== deferred {deferred:?}");
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
fn example_renders_to_the_golden_files() {
    golden("example.txt", &whole(&Desired::render(&example(), &with_token()).expect("compatible")));
}

#[test]
fn containerd_1_gets_the_older_format() {
    let mut config = example();
    config.spec.runtime.version = "1.7.27".to_owned();
    config.spec.runtime.default_runtime = "nvidia-container-runtime".to_owned();
    let image = Image { sandbox_image: "pause:3.10".to_owned(), ..Image::default() };
    let desired = Desired::render(&config, &Facts { image, ..with_token() }).expect("compatible");
    golden("containerd-1.toml", desired.text("containerd.toml").expect("a configuration"));
}

#[test]
fn credential_appears_only_in_secret_files() {
    let desired = Desired::render(&example(), &with_token()).expect("compatible");
    let mut text = format!("{:?}{desired:?}{}", with_token(), whole(&desired));
    for file in desired.files.iter().chain(desired.outside()) {
        if matches!(file.content, FileContent::Secret(_)) {
            assert_eq!(file.mode, 0o600, "{}", file.path);
        } else {
            text.push_str(&String::from_utf8_lossy(file.content.expose()));
        }
    }
    let plan = Plan::new(None, &example(), &desired, &Observed::default());
    let _ = write!(text, "{plan:?}{}", serde_json::to_string(&plan).expect("JSON"));
    text.push_str(&String::from_utf8_lossy(plan.manifest.to_file().content.expose()));
    assert!(!text.contains("0123456789abcdef"));
    let kept = desired.file("bootstrap-kubeconfig").expect("a kubeconfig");
    assert!(String::from_utf8_lossy(kept.content.expose()).contains(TOKEN), "the kubeconfig contains it");
}
