//! A real API server with the kinds of the fleet, and kiln as a process.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;

use control_plane::{ControlPlane, Identity, Options, unique};
use serde_json::{Value, json};
use testkit::{Finished, Kiln, run};

/// One API server for this binary: commands without names list the whole cluster, and other tests of the shared one have no fleet.
static PLANE: LazyLock<ControlPlane> = LazyLock::new(|| {
    let plane = start();
    let file = plane.folder().join("fleet.yaml");
    std::fs::write(&file, kiln_fleet_api::yaml()).expect("the definitions are written");
    let file = file.display().to_string();
    for arguments in [
        ["apply", "--server-side", "-f", &file].as_slice(),
        &["wait", "--for=condition=Established", "--timeout=60s", "-f", &file],
    ] {
        plane.run_kubectl(arguments).unwrap_or_else(|error| panic!("{error}"));
    }
    plane
});

/// An API server without controllers.
pub(crate) fn start() -> ControlPlane {
    ControlPlane::start(&Options::bare()).unwrap_or_else(|error| panic!("{error}"))
}

pub(crate) fn plane() -> &'static ControlPlane {
    &PLANE
}

/// A pool with nodes, and a folder for documents.
pub(crate) struct World {
    pub(crate) pool: String,
    pub(crate) folder: tempfile::TempDir,
    kubeconfig: PathBuf,
    plane: &'static ControlPlane,
}

impl World {
    /// Creates a pool with this many nodes.
    pub(crate) fn new(nodes: usize) -> Self {
        let pool = unique("pool");
        let world = Self {
            folder: tempfile::tempdir().expect("a folder"),
            kubeconfig: plane().kubeconfig().to_owned(),
            plane: plane(),
            pool,
        };
        world.apply(&json!({
            "apiVersion": "node.kiln.dev/v1alpha1", "kind": "Pool", "metadata": {"name": world.pool},
            "spec": {"nodeSelector": {"pool": world.pool}},
        }));
        for number in 0..nodes {
            let name = world.node(number);
            world.apply(&json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"pool": world.pool}}}));
        }
        world
    }

    /// The same world for a user without permissions but those of a role.
    pub(crate) fn user(&self, role: &Value) -> Self {
        let name = unique("user");
        let rules = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": role});
        let binding = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            "subjects": [{"kind": "User", "name": name}],
        });
        self.apply(&rules);
        self.apply(&binding);
        let kubeconfig = plane().kubeconfig_for(&Identity::user(&name)).expect("a kubeconfig");
        Self { pool: self.pool.clone(), folder: tempfile::tempdir().expect("a folder"), kubeconfig, plane: self.plane }
    }

    pub(crate) fn node(&self, number: usize) -> String {
        format!("{}-{number}", self.pool)
    }

    /// Writes a document that differs from those of other worlds and from other documents of this one.
    pub(crate) fn document(&self, swappiness: u32) -> String {
        self.write(&format!("{swappiness}.yaml"), &self.text("1.33.7", swappiness))
    }

    /// A document of this world.
    pub(crate) fn text(&self, version: &str, swappiness: u32) -> String {
        text(&self.pool, version, swappiness)
    }

    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).expect("written");
        path.display().to_string()
    }

    pub(crate) fn apply(&self, object: &Value) {
        self.plane.apply(object).unwrap_or_else(|error| panic!("{error}"));
    }

    /// Sets the status of an object, as the operator or kilnd does.
    pub(crate) fn set_status(&self, kind: &str, name: &str, status: &Value) {
        let patch = json!({"status": status}).to_string();
        let arguments = ["patch", kind, name, "--subresource=status", "--type=merge", "-p", &patch];
        self.plane.run_kubectl(&arguments).unwrap_or_else(|error| panic!("{error}"));
    }

    pub(crate) fn get(&self, kind: &str, name: &str) -> Value {
        self.plane.get(&[kind, name]).unwrap_or_else(|error| panic!("{error}"))
    }

    pub(crate) fn kiln(&self, arguments: &[&str]) -> Finished {
        kiln(&self.kubeconfig, arguments)
    }

    /// Runs a command that succeeds.
    pub(crate) fn ok(&self, arguments: &[&str]) {
        drop(self.kiln(arguments).success());
    }

    /// Runs a command that succeeds and prints JSON.
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        self.kiln(&[arguments, &["--output", "json"]].concat()).success().json()
    }

    /// Creates a rollout of a document to the pool and returns its name.
    pub(crate) fn rollout(&self, swappiness: u32) -> String {
        let created = self.json(&["rollout", "create", "-f", &self.document(swappiness), "--pool", &self.pool]);
        created["rollout"].as_str().expect("a name").to_owned()
    }
}

/// A document in YAML.
pub(crate) fn text(name: &str, version: &str, swappiness: u32) -> String {
    let ca = r#""-----BEGIN CERTIFICATE-----\nMIIBOg==\n-----END CERTIFICATE-----\n""#;
    format!(
        "apiVersion: node.kiln.dev/v1alpha1\nkind: NodeConfig\nmetadata: {{name: {name}, generation: 1}}\nspec:\n  \
         cluster: {{endpoint: 'https://api.example:443', certificateAuthority: {ca}}}\n  kubelet: {{version: {version}}}\n  \
         os: {{sysctl: {{vm.swappiness: '{swappiness}'}}}}\n"
    )
}

/// Runs kiln with a kubeconfig.
pub(crate) fn kiln(kubeconfig: &Path, arguments: &[&str]) -> Finished {
    let mut command = Kiln::at(env!("CARGO_BIN_EXE_kiln")).command(arguments);
    command.env("KUBECONFIG", kubeconfig).env("USER", "alice");
    run(command, Duration::from_mins(2))
}

/// Fails unless a command failed with this code and these texts.
#[track_caller]
pub(crate) fn assert_fails(finished: &Finished, code: i32, texts: &[&str]) {
    let mut missing = String::new();
    for text in texts.iter().filter(|text| !finished.stderr.contains(**text)) {
        let _ = write!(missing, "`{text}` ");
    }
    assert!(finished.code == Some(code) && missing.is_empty(), "expected code {code}, missing {missing}: {finished}");
}
