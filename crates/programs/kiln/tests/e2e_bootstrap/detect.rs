//! What the cluster says of itself, asked over the wire.

use std::collections::BTreeMap;
use std::fs;

use testkit::{Finished, Kiln, SimProcess};

fn kiln() -> Kiln {
    Kiln::at(env!("CARGO_BIN_EXE_kiln"))
}

struct Cluster {
    _sim: SimProcess,
    variables: BTreeMap<String, String>,
    folder: tempfile::TempDir,
}

impl Cluster {
    fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let sim = kiln().sim(&["--speed", "instant"]);
        let ready = folder.path().join("ready.json");
        fs::write(&ready, sim.ready().to_string()).expect("written");
        let said = kiln().run(&["sim", "env", "--from", &ready.display().to_string(), "--output", "json"]).success();
        let variables = serde_json::from_value(said.json()["variables"].clone()).expect("variables");
        Self { _sim: sim, variables, folder }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn run(&self, arguments: &[&str]) -> Finished {
        let mut command = kiln().command(&[&["bootstrap"], arguments].concat());
        command.envs(&self.variables);
        testkit::run(command, std::time::Duration::from_mins(2))
    }
}

#[test]
fn what_no_source_says_is_looked_for_and_explicit_beats_detected() {
    let cluster = Cluster::start();
    let kubeconfig = cluster.variables["KUBECONFIG"].clone();
    let line = |field: &str, more: &[&str]| {
        let arguments = [&["explain", field, "--kubeconfig", &kubeconfig, "--output", "json"], more].concat();
        cluster.run(&arguments).success().json()
    };
    let version = line("kubernetesVersion", &[]);
    assert_eq!((version["kind"].as_str(), version["place"].as_str()), (Some("detected"), Some("GET /version")));
    let found = version["value"].as_str().expect("a version").to_owned();
    let told = line("kubernetesVersion", &["--set", "kubernetesVersion=1.30.1"]);
    assert_eq!((told["value"].as_str(), told["kind"].as_str()), (Some("1.30.1"), Some("settings")));
    assert_eq!(
        (told["overrode"][0]["value"].as_str(), told["overrode"][0]["kind"].as_str()),
        (Some(found.as_str()), Some("detected"))
    );
    // The certificates come from the kubeconfig that already trusts them.
    let ca = line("caBundle", &[]);
    assert_eq!(ca["kind"], "detected");
    assert!(ca["value"].as_str().is_some_and(|text| text.len() > 100), "{ca}");
}

#[test]
fn the_settings_of_a_cluster_are_a_file_that_can_be_used_and_names_its_calls() {
    let cluster = Cluster::start();
    let (kubeconfig, file) = (cluster.variables["KUBECONFIG"].clone(), cluster.path("settings.yaml"));
    let finished = cluster.run(&["settings", "--from-cluster", "--kubeconfig", &kubeconfig, "-o", &file]).success();
    assert_eq!(finished.stdout, "");
    let text = fs::read_to_string(&file).expect("a file");
    assert!(text.contains("# GET /version\nkubernetesVersion: \"1."), "{text}");
    let checked = cluster.run(&["check", &file]).success();
    assert!(checked.stdout.contains("settings, can be used"), "{checked}");
    let explained = cluster.run(&["explain", "kubernetesVersion", "--settings", &file, "--output", "json"]).success();
    assert_eq!(explained.json()["kind"], "settings");
    // The same, found by the variable that kubectl reads.
    let json = cluster.run(&["settings", "--from-cluster", "--output", "json"]).success().json();
    let fields: Vec<&str> =
        json["found"].as_array().expect("facts").iter().filter_map(|f| f["field"].as_str()).collect();
    assert!(fields.contains(&"caBundle") && fields.contains(&"kubernetesVersion"), "{fields:?}");
}

#[test]
fn a_cluster_that_does_not_answer_is_named_with_what_to_do_instead() {
    let folder = tempfile::tempdir().expect("a folder");
    let kubeconfig = folder.path().join("config");
    // Nothing listens on port 1 of loopback.
    let text = "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: c, user: u}}]\n\
                clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\nusers: [{name: u, user: {}}]\n";
    fs::write(&kubeconfig, text).expect("written");
    let path = kubeconfig.display().to_string();
    let arguments = ["bootstrap", "render", "--to", "node-config", "--timeout", "1", "--kubeconfig", &path];
    let finished = kiln().run(&arguments);
    assert_eq!(finished.code, Some(1), "{finished}");
    assert!(finished.stderr.contains("https://127.0.0.1:1 did not answer"), "{finished}");
    assert!(finished.stderr.contains("hint: say in the settings"), "{finished}");
}
