//! Runs the output of `kiln bootstrap render` with bash in a private mount namespace, where `/opt` and `/var/log` are empty file systems.
//! Stubs of the image's provisioning scripts record their environment.

mod detect;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

use kiln_aks_formats::from_base64;
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::Kiln;

/// A value with characters that are special to a shell.
fn hostile(name: &str) -> String {
    format!("{name}: it's \"$HOME\" `id` $(id) ${{PATH}}\n#EOF\nEOF\r\tö 世 \\ ! * ~ end ")
}

/// Inputs with a hostile value in every string.
fn values() -> Value {
    let overrides = kiln_aks_formats::nbv::Field::ALL.into_iter().filter(|field| {
        let row = kiln_bootstrap::Field::named(field.name()).expect("every variable is a field");
        // Computed variables cannot be overridden.
        row.from.is_empty() && field.shape() == kiln_aks_formats::nbv::Shape::Text && field.env().is_some()
    });
    let overrides: BTreeMap<&str, String> = overrides.map(|field| (field.name(), hostile(field.name()))).collect();
    assert!(overrides.len() > 40, "{}", overrides.len());
    json!({
        "kubernetes_version": "1.33.7", "ca_bundle": hostile("ca"), "api_server_name": hostile("server"), "bootstrap_token": hostile("token"),
        "tenant_id": hostile("tenant"), "subscription_id": hostile("subscription"), "location": hostile("location"),
        "resource_group": hostile("group"), "kubelet_identity_client_id": hostile("identity"), "network_plugin": hostile("plugin"),
        "network_policy": hostile("policy"), "nsg_name": hostile("nsg"), "route_table": hostile("routes"),
        "subnet_id": "/subscriptions/s/resourceGroups/it's $HOME/providers/Microsoft.Network/virtualNetworks/`n`/subnets/\"sub\"",
        "custom_ca_certs": [hostile("first"), "YQ=="], "overrides": overrides,
    })
}

struct Root(TempDir);

impl Root {
    fn new() -> Self {
        let root = Self(tempfile::tempdir().expect("a folder"));
        fs::create_dir_all(root.path("tools")).expect("a folder");
        root
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.0.path().join(name)
    }

    /// Renders custom data as a machine receives it.
    fn render(&self, arguments: &[&str]) -> Vec<u8> {
        let kiln = Kiln::at(env!("CARGO_BIN_EXE_kiln"));
        let finished = kiln.run(&[&["bootstrap", "render", "--to", "custom-data"], arguments].concat()).success();
        let script = from_base64(finished.stdout.trim()).expect("base64");
        fs::write(self.path("custom-data"), &script).expect("a file");
        fs::set_permissions(self.path("custom-data"), fs::Permissions::from_mode(0o700)).expect("a mode");
        script
    }

    fn tool(&self, name: &str, body: &str) {
        fs::write(self.path(&format!("tools/{name}")), format!("#!/bin/bash\n{body}\n")).expect("a tool");
        fs::set_permissions(self.path(&format!("tools/{name}")), fs::Permissions::from_mode(0o755)).expect("a mode");
    }

    /// Runs the unchanged custom data after the commands in `prepare`.
    fn boot(&self, prepare: &str) -> Output {
        let here = self.0.path().display();
        let namespace = format!(
            "set -e\nmount -t tmpfs tmpfs /opt\nmount -t tmpfs tmpfs /var/log\nmkdir -p /opt/azure/containers /var/log/azure\n\
             cat >/opt/azure/containers/provision_start.sh <<'END'\nenv -0 >'{here}/reached'\nEND\n{prepare}\n\
             set +e\ncd /\nenv -i PATH='{here}/tools':/usr/bin:/bin '{here}/custom-data'\ncode=$?\n\
             cp -r /opt/azure '{here}/opt-azure'; cp -r /var/log/azure '{here}/log-azure'; exit $code\n"
        );
        let mut command = Command::new("unshare");
        if !is_root() {
            command.arg("--map-root-user");
        }
        command.args(["--mount", "--propagation", "private", "/bin/bash", "-c", &namespace]);
        command.output().expect("unshare")
    }

    /// Returns the environment of the provisioning script, without variables that the shell sets.
    fn reached(&self) -> BTreeMap<String, String> {
        let text =
            String::from_utf8(fs::read(self.path("reached")).expect("the provisioning script ran")).expect("UTF-8");
        let entries = text.split('\0').filter_map(|entry| entry.split_once('='));
        let mut reached: BTreeMap<String, String> =
            entries.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        for shell_variable in ["PATH", "PWD", "OLDPWD", "SHLVL", "_"] {
            reached.remove(shell_variable);
        }
        reached
    }
}

fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout == b"0\n")
}

const READY: &str = "printf 'true\\n#EOF\\n' >/opt/azure/containers/provision.sh";

fn environment(arguments: &[&str]) -> BTreeMap<String, String> {
    let kiln = Kiln::at(env!("CARGO_BIN_EXE_kiln"));
    let all = [&["bootstrap", "render", "--to", "env", "--output", "json"], arguments].concat();
    serde_json::from_str(&kiln.run(&all).success().stdout).expect("names and texts")
}

#[test]
fn hostile_values_reach_the_provisioning_script_unchanged() {
    let root = Root::new();
    fs::write(root.path("values.json"), values().to_string()).expect("a file");
    let arguments = ["--values", &root.path("values.json").display().to_string()];
    root.render(&arguments);
    let output = root.boot(READY);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let (reached, rendered) = (root.reached(), environment(&arguments));
    assert_eq!(reached.keys().collect::<Vec<_>>(), rendered.keys().collect::<Vec<_>>(), "both have the same variables");
    assert_eq!(reached, rendered);
    assert_eq!(reached.len(), 130, "128 variables and two certificates");
    assert_eq!(reached["TLS_BOOTSTRAP_TOKEN"], hostile("token"));
    assert_eq!(fs::read_to_string(root.path("opt-azure/manifest.json")).expect("a file"), "#EOF\n");
    assert!(root.path("log-azure/Microsoft.Azure.Extensions.CustomScript/events").is_dir());
    assert!(fs::read_to_string(root.path("log-azure/cluster-provision-cse-output.log")).expect("a file").contains(','));
}

#[test]
fn example_values_reach_the_provisioning_script_unchanged() {
    let root = Root::new();
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bootstrap/example");
    let file = |name: &str| example.join(name).display().to_string();
    let (settings, pool, class) = (file("settings.yaml"), file("node-pool.yaml"), file("node-class.yaml"));
    let arguments = ["--settings", &settings, "--node-pool", &pool, "--node-class", &class];
    root.render(&arguments);
    let output = root.boot(READY);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(root.reached(), environment(&arguments));
    assert_eq!(root.reached().len(), 128);
}

#[test]
fn script_waits_for_the_provisioning_script_and_times_out() {
    let root = Root::new();
    fs::write(root.path("values.json"), values().to_string()).expect("a file");
    root.render(&["--values", &root.path("values.json").display().to_string()]);
    // A stub of `sleep` writes the file at the third call, so the test does not depend on time.
    let here = root.0.path().display().to_string();
    root.tool(
        "sleep",
        &format!("echo x >>'{here}/waited'\nif [ $(wc -l <'{here}/waited') = 3 ]; then printf '#EOF\\n' >/opt/azure/containers/provision.sh; fi"),
    );
    let output = root.boot("printf 'half' >/opt/azure/containers/provision.sh");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(fs::read_to_string(root.path("waited")).expect("`sleep` was called").lines().count(), 3);
    fs::remove_file(root.path("reached")).expect("the provisioning script ran");
    // The file is never complete: stubs of `grep` and `sleep` make the twenty minutes pass at once.
    root.tool("sleep", ":");
    root.tool("grep", "exit 1");
    let output = root.boot(":");
    assert_eq!(output.status.code(), Some(100));
    assert!(!root.path("reached").exists(), "the provisioning script did not run");
}
