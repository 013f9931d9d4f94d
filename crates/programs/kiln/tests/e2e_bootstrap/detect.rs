//! Detection of settings from the embedded Kubernetes.

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
        let environment =
            kiln().run(&["sim", "env", "--from", &ready.display().to_string(), "--output", "json"]).success();
        let variables = serde_json::from_value(environment.json()["variables"].clone()).expect("variables");
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
fn missing_values_are_detected_and_explicit_values_override_them() {
    let cluster = Cluster::start();
    let kubeconfig = cluster.variables["KUBECONFIG"].clone();
    let line = |field: &str, more: &[&str]| {
        let arguments = [&["explain", field, "--kubeconfig", &kubeconfig, "--output", "json"], more].concat();
        cluster.run(&arguments).success().json()
    };
    let version = line("kubernetesVersion", &[]);
    assert_eq!((version["kind"].as_str(), version["position"].as_str()), (Some("detected"), Some("GET /version")));
    let found = version["value"].as_str().expect("a version").to_owned();
    let set = line("kubernetesVersion", &["--set", "kubernetesVersion=1.30.1"]);
    assert_eq!((set["value"].as_str(), set["kind"].as_str()), (Some("1.30.1"), Some("settings")));
    assert_eq!(
        (set["overrode"][0]["value"].as_str(), set["overrode"][0]["kind"].as_str()),
        (Some(found.as_str()), Some("detected"))
    );
    // The certificate authority comes from the kubeconfig, which already trusts it.
    let ca = line("caBundle", &[]);
    assert_eq!(ca["kind"], "detected");
    assert!(ca["value"].as_str().is_some_and(|text| text.len() > 100), "{ca}");
}

#[test]
fn detected_settings_are_a_valid_file_with_api_calls_as_comments() {
    let cluster = Cluster::start();
    let (kubeconfig, file) = (cluster.variables["KUBECONFIG"].clone(), cluster.path("settings.yaml"));
    let finished = cluster.run(&["settings", "--from-cluster", "--kubeconfig", &kubeconfig, "--out", &file]).success();
    assert_eq!(finished.stdout, "");
    let text = fs::read_to_string(&file).expect("a file");
    assert!(text.contains("# GET /version\nkubernetesVersion: \"1."), "{text}");
    let checked = cluster.run(&["check", &file]).success();
    assert!(checked.stdout.contains("valid settings"), "{checked}");
    let explained = cluster.run(&["explain", "kubernetesVersion", "--settings", &file, "--output", "json"]).success();
    assert_eq!(explained.json()["kind"], "settings");
    // The kubeconfig is also found by the environment variable of kubectl.
    let json = cluster.run(&["settings", "--from-cluster", "--output", "json"]).success().json();
    let fields: Vec<&str> =
        json["found"].as_array().expect("facts").iter().filter_map(|f| f["field"].as_str()).collect();
    assert!(fields.contains(&"caBundle") && fields.contains(&"kubernetesVersion"), "{fields:?}");
}

#[test]
fn unreachable_cluster_is_an_error_with_a_hint() {
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
    assert!(finished.stderr.contains("https://127.0.0.1:1 did not respond"), "{finished}");
    assert!(finished.stderr.contains("hint: set the missing fields in the settings"), "{finished}");
}
