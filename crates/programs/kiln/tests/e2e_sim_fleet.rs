//! `kiln sim serve` and `kiln operator` as two processes are a whole fleet: the commands of the guides run there, in their order.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use test_deps::{Cache, KubePrograms};
use testkit::guide::{Part, parts};
use testkit::run;

/// Long enough for debug builds on a busy machine.
const PATIENCE: Duration = Duration::from_mins(8);

/// Rolls out another document than the guide's before it.
const BEFORE: &str = r#"
sed -e 's/generation: 8/generation: 7/' -e 's/maxPods: 60/maxPods: 50/' -e 's/: "10"/: "20"/' web.yaml > before.yaml
kiln rollout create -f before.yaml --pool web --output json > before.json
kiln rollout status "$(sed -n 's/.*"rollout": "\(.*\)".*/\1/p' before.json)" --watch"#;

/// Rolls out a document with which no kubelet becomes healthy. The command fails, and the nodes have the guide's document again.
const BAD: &str = r#"
sed -e 's/generation: 8/generation: 9/' -e 's/maxPods: 60/maxPods: 0/' web.yaml > bad.yaml
kiln rollout create -f bad.yaml --pool web --output json > bad.json
! kiln rollout status "$(sed -n 's/.*"rollout": "\(.*\)".*/\1/p' bad.json)" --watch"#;

/// As the guide says: the embedded API server publishes no schemas.
const KUBECTL: &str = r#"#!/bin/sh
case "$1" in
create | apply) exec KUBECTL "$@" --validate=false ;;
*) exec KUBECTL "$@" ;;
esac
"#;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(3).expect("the root of the repository").to_path_buf()
}

fn page(name: &str) -> String {
    let path = root().join("docs/guides").join(name);
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    dedented(&text)
}

/// The page without the indentation of blocks in lists.
fn dedented(text: &str) -> String {
    let (mut page, mut indent) = (String::new(), None);
    for line in text.lines() {
        let is_fence = line.trim_start().starts_with("```");
        let width = line.len() - line.trim_start().len();
        let cut = indent.unwrap_or(if is_fence { width } else { 0 });
        if is_fence {
            indent = if indent.is_none() { Some(width) } else { None };
        }
        page.push_str(line.get(cut..).unwrap_or_default());
        page.push('\n');
    }
    page
}

/// The part of a page below a title.
fn section<'a>(page: &'a str, title: &str) -> &'a str {
    let (_, below) = page.split_once(&format!("\n## {title}\n")).unwrap_or_else(|| panic!("no section `{title}`"));
    below.split("\n## ").next().unwrap_or(below)
}

/// The commands of a section with their documented output.
fn commands(page: &str, title: &str) -> Vec<(String, String)> {
    let typed = parts(section(page, title)).into_iter().filter_map(|part| match part {
        Part::Typed { command, prints } => Some((command, prints)),
        Part::Text(_) => None,
    });
    let commands: Vec<_> = typed.collect();
    assert!(!commands.is_empty(), "no command in `{title}`");
    commands
}

/// The YAML of a section that contains this line.
fn yaml(page: &str, title: &str, line: &str) -> String {
    let mut blocks = section(page, title).split("```yaml\n").skip(1).filter_map(|rest| rest.split("```\n").next());
    blocks.find(|block| block.lines().any(|one| one == line)).unwrap_or_else(|| panic!("no `{line}`")).to_owned()
}

/// A script whose steps keep their output and exit code in files.
#[derive(Default)]
struct Script {
    text: String,
    /// The command and the documented output of each step.
    steps: Vec<(String, String)>,
}

impl Script {
    fn step(&mut self, command: &str, prints: &str) {
        let number = self.steps.len();
        let _ = write!(
            self.text,
            "{{\n{}\n}} > {number}.out 2> {number}.err; echo $? > {number}.code\n",
            command.trim_end()
        );
        if command.trim_end().ends_with('&') {
            let _ = writeln!(self.text, "echo $! > {number}.pid");
        }
        self.steps.push((command.to_owned(), prints.to_owned()));
    }

    fn all(&mut self, commands: Vec<(String, String)>, rollout: &str) {
        for (command, prints) in commands {
            self.step(
                &command.replace("NAME ", &format!("{rollout} ")).replace("NAME\n", &format!("{rollout}\n")),
                &prints,
            );
        }
    }

    /// The number of the step that starts with these words.
    fn find(&self, start: &str) -> usize {
        self.steps.iter().position(|(command, _)| command.starts_with(start)).unwrap_or_else(|| panic!("no `{start}`"))
    }
}

#[test]
fn commands_of_the_guides_work_on_a_laptop() {
    let (fleet, on_call) = (page("fleet.md"), page("fleet-on-call.md"));
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let kubectl = KubePrograms::of_user(Cache::of_user().expect("a cache")).find("kubectl").expect("kubectl");
    fs::create_dir(at("bin")).expect("a folder");
    symlink(env!("CARGO_BIN_EXE_kiln"), at("bin/kiln")).expect("a link");
    fs::write(at("bin/kubectl"), KUBECTL.replace("KUBECTL", &kubectl.display().to_string())).expect("written");
    fs::set_permissions(at("bin/kubectl"), fs::Permissions::from_mode(0o755)).expect("executable");
    symlink(root().join("charts"), at("charts")).expect("a link");
    let first = "The first rollout";
    fs::write(at("pool.yaml"), yaml(&fleet, first, "kind: Pool")).expect("written");
    let document = yaml(&fleet, first, "kind: NodeConfig");
    fs::write(at("web.yaml"), &document).expect("written");
    let parsed: serde_json::Value = serde_saphyr::from_str(&document).expect("a document");
    let digest = kiln_node_config::NodeConfig::parse(parsed.to_string().as_bytes()).expect("a document").hash();
    let rollout = format!("web-{}", &digest[..8]);

    let mut script = Script::default();
    script.all(commands(&fleet, "On a laptop"), "");
    let mut rollouts = commands(&fleet, first).into_iter();
    let (apply, prints) = rollouts.next().expect("the pool is created");
    script.step(&apply, &prints);
    script.step(BEFORE, "");
    script.all(rollouts.collect(), &rollout);
    script.step(BAD, "");
    script.all(commands(&on_call, "Stop everything"), &rollout);
    script.all(commands(&on_call, "Why is nothing moving?"), &rollout);
    script.step("kiln freeze off --all", "");
    script.all(commands(&on_call, "Put it back"), &rollout);
    script.step(&format!("kiln rollout status {rollout}-undo --watch"), "");
    script.step("kubectl get kns -o json", "");
    let operator = script.find("kiln operator ");
    script.step(&format!("kill -TERM $(cat {operator}.pid); wait $(cat {operator}.pid)"), "");
    script.step("kubectl --namespace default get lease kiln-operator -o jsonpath='{.spec.holderIdentity}'", "");
    let sim = script.find("kiln sim serve ");
    script.step(&format!("kill -TERM $(cat {sim}.pid); wait $(cat {sim}.pid)"), "");

    let mut shell = Command::new("bash");
    let path = format!("{}:/usr/bin:/bin", at("bin").display());
    shell
        .arg("-c")
        .arg(&script.text)
        .current_dir(folder.path())
        .env_clear()
        .env("PATH", path)
        .env("HOME", folder.path());
    let finished = run(shell, PATIENCE);
    let read = |name: String| fs::read_to_string(at(&name)).unwrap_or_default();
    let report = |number: usize| {
        let logs = format!("{}\n{}", read("sim.log".to_owned()), read("operator.log".to_owned()));
        format!(
            "{}\n{}{}\n{logs}\n{finished}",
            script.steps[number].0,
            read(format!("{number}.out")),
            read(format!("{number}.err"))
        )
    };
    let mut outputs = BTreeMap::new();
    for (number, (command, prints)) in script.steps.iter().enumerate() {
        assert_eq!(read(format!("{number}.code")).trim(), "0", "{}", report(number));
        let output = read(format!("{number}.out"));
        assert!(prints.is_empty() || output == *prints, "the guide prints\n{prints}for {}", report(number));
        outputs.insert(command.clone(), output);
    }
    let output = |start: &str| &outputs[&script.steps[script.find(start)].0];
    assert!(output("kiln rollout status\n").contains("what is it waiting for?"), "{}", output("kiln rollout status\n"));
    assert!(output("kubectl get kro -o custom-columns").contains(&rollout));
    assert!(output(BAD).contains("RolledBack, 0 of 4 nodes updated, 1 failed"), "{}", output(BAD));
    let previous = output("kubectl get kro web-");
    assert!(previous.contains("\"web\"") && previous.contains("nodeConfig"), "{previous}");
    // All nodes have the document from before the guide's again.
    let states: serde_json::Value = serde_json::from_str(output("kubectl get kns -o json")).expect("JSON");
    let states = states["items"].as_array().expect("a list");
    assert_eq!(states.len(), 4);
    for state in states {
        let current = &state["status"]["current"];
        assert!(current["committed"] == true && current["digest"] != digest, "{state:#}");
        assert_eq!(current["digest"], state["spec"]["desired"]["digest"], "{state:#}");
    }
    assert_eq!(output("kubectl --namespace default get lease"), "", "the lease is released");
    let log = read("operator.log".to_owned());
    assert!(log.contains("stopped"), "{log}");
}
