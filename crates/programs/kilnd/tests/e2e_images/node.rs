//! A machine of one kind with its cloud, and what the tests ask of it.

use std::sync::atomic::{AtomicU8, Ordering};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use testkit::nspawn::Machine;

use super::booted::cloud::Cloud;
use super::booted::cluster::{TOKEN, node_document};
use super::booted::document::{Document, ovf_env_with_credential};
use super::booted::stage::Stage;
use super::cluster::{self, plane};
use super::kinds::{Kind, LINK};

/// A file of the image with the join credential, for machines without provisioning media.
pub(crate) const TOKEN_FILE: &str = "/etc/kiln/token";

/// The number of attempts, one per second, until a Node object is as expected.
const ATTEMPTS: usize = 60;

/// A machine of one kind. Its network has a link and the metadata service, and reaches the API server.
pub(crate) struct Node {
    pub(crate) kind: Kind,
    pub(crate) name: String,
    /// The VM id.
    id: String,
    pub(crate) machine: Machine,
    pub(crate) cloud: Cloud,
}

impl Node {
    /// A machine that has not been booted.
    pub(crate) fn new(kind: Kind, name: &str) -> Self {
        Self::build(kind, name, None)
    }

    /// Another machine with a copy of this one's disk, not booted.
    pub(crate) fn clone_as(&self, name: &str) -> Self {
        Self::build(self.kind, name, Some(&self.machine))
    }

    fn build(kind: Kind, name: &str, donor: Option<&Machine>) -> Self {
        static COUNT: AtomicU8 = AtomicU8::new(1);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{}-{name}", kind.name());
        let (id, token) =
            (format!("16a52d90-3c5f-4a3e-8b57-7f2b4c6d8e{number:02x}"), format!("{}.{}", TOKEN.0, TOKEN.1));
        let address = format!("02:00:0a:00:00:{number:02x}");
        let blueprint = kind.blueprint(&name).secret(TOKEN_FILE, token);
        let machine = if let Some(donor) = donor {
            blueprint.disk_of(donor).build()
        } else {
            let machine = blueprint.build();
            kind.prepare(&machine);
            machine
        };
        machine.hardware("dmi/product_uuid", &id);
        machine.hardware("host-name", &name);
        machine.network().forward(plane().address());
        for words in [
            vec!["link", "add", LINK, "address", &address, "type", "veth", "peer", "name", "outside"],
            vec!["link", "set", "outside", "up"],
        ] {
            let status = machine.network().command("ip").args(&words).status().expect("ip");
            assert!(status.success(), "ip {words:?}");
        }
        let cloud = Cloud::start(&machine);
        Self { kind, name, id, machine, cloud }
    }

    /// A NodeConfig for this machine.
    pub(crate) fn document(&self, generation: u64) -> Document {
        node_document(plane(), &self.name, generation)
    }

    /// Attaches provisioning media with this document and the join credential.
    pub(crate) fn attach_media(&self, document: &Document) {
        let token = format!("{}.{}", TOKEN.0, TOKEN.1);
        self.machine.hardware("cd/ovf-env.xml", ovf_env_with_credential(&self.name, document, &token));
    }

    /// Boots the machine.
    #[track_caller]
    pub(crate) fn boot(mut self) -> Self {
        self.machine.boot();
        self
    }

    /// Waits until a generation is committed, which needs a healthy kubelet and a ready node, and checks the Node object.
    #[track_caller]
    pub(crate) fn assert_joined(&self, generation: u64) {
        // The disk of a clone has the state of its donor, until the first boot of the clone has ended.
        self.machine.wait_until("the machine has recorded its VM id", |machine| {
            (machine.read("/var/lib/kiln/vm-id").unwrap_or_default().trim() == self.id).then_some(())
        });
        self.wait_committed(generation);
        let object = self.object();
        assert!(is_ready(&object), "{object:#}");
        assert_eq!(object["status"]["nodeInfo"]["kubeletVersion"], "v1.34.4");
    }

    /// Asserts that kilnd's drop-ins win over the image's: the processes run the programs and files of the generation in force.
    #[track_caller]
    pub(crate) fn assert_kiln_wins(&self) {
        for (unit, argument) in [
            ("kubelet.service", "--config=/etc/kiln/current/kubelet.json"),
            ("containerd.service", "--config /etc/kiln/current/containerd.toml"),
        ] {
            let line = format!("tr '\\0' ' ' </proc/$(systemctl show --value -p MainPID {unit})/cmdline");
            let line = self.machine.shell(&line).stdout;
            assert!(line.starts_with("/etc/kiln/current/") && line.contains(argument), "{unit}: {line}");
            let object = format!("/org/freedesktop/systemd1/unit/{}", unit.replace('.', "_2e"));
            let (service, interface) = ("org.freedesktop.systemd1", "org.freedesktop.systemd1.Unit");
            let conditions = self.machine.run(&["busctl", "get-property", service, &object, interface, "Conditions"]);
            let gate = r#"a(sbbsi) 1 "ConditionPathExists" false false "/run/kiln/ready" 1"#;
            assert_eq!(conditions.stdout.trim(), gate, "{unit} has the gate and no condition of the image");
        }
    }

    /// Removes kilnd's units and drop-ins, and asserts that the image's units are in force again and that no service was restarted.
    #[track_caller]
    pub(crate) fn assert_units_are_the_images_without_kilnd(&self) {
        let process = || self.machine.property("kubelet.service", "MainPID");
        let before = process();
        self.machine.shell(
            "cd /usr/lib/systemd/system
             rm -r kiln-* *.wants/kiln-* kubelet.service.d/zz-kiln.conf containerd.service.d/zz-kiln.conf
             systemctl daemon-reload",
        );
        let text = self.machine.shell("systemctl cat kubelet.service containerd.service").stdout;
        assert!(!text.contains("kiln"), "{text}");
        let programs = self.machine.shell("systemctl show --property=ExecStart kubelet.service | grep -o 'path=[^ ]*'");
        assert_eq!(programs.stdout.trim(), format!("path={}", self.kind.kubelet()));
        assert_eq!(process(), before, "the kubelet runs on");
    }

    /// Asserts that the image's own services run next to kilnd's, and that pods get the resolver configuration that works on this image.
    #[track_caller]
    pub(crate) fn assert_image_is_whole(&self) {
        for unit in self.kind.services() {
            self.machine.wait_for(unit, "active");
        }
        let kubelet = Stage::json(&self.machine, "/etc/kiln/current/kubelet.json");
        assert_eq!(kubelet["resolvConf"].as_str(), self.kind.resolv_conf());
        if let Some(path) = self.kind.resolv_conf() {
            let servers = self.machine.read(path).unwrap_or_else(|| panic!("no {path}"));
            assert!(!servers.contains("nameserver 127."), "pods would ask themselves: {servers}");
        }
    }

    pub(crate) fn committed(&self) -> Option<u64> {
        Stage::committed(&self.machine)
    }

    #[track_caller]
    pub(crate) fn wait_committed(&self, generation: u64) {
        Stage::wait_committed(&self.machine, generation);
    }

    /// Waits until kilnd has reverted a generation.
    #[track_caller]
    pub(crate) fn wait_reverted(&self, generation: u64) {
        self.machine.wait_until(&format!("generation {generation} was reverted"), |machine| {
            let state = Stage::json(machine, "/var/lib/kiln/state.json");
            let rejected = state["rejected"].as_array().cloned().unwrap_or_default();
            rejected.iter().any(|entry| entry["number"] == generation).then_some(())
        });
    }

    /// The Node object, which exists.
    #[track_caller]
    pub(crate) fn object(&self) -> Value {
        cluster::node(&self.name).unwrap_or_else(|| panic!("no node {}", self.name))
    }

    /// The time of the kubelet's last report.
    pub(crate) fn heartbeat(&self) -> String {
        ready(&self.object())["lastHeartbeatTime"].as_str().unwrap_or_default().to_owned()
    }

    /// Waits until a kubelet has reported the node as ready after this time. An idle kubelet reports every five minutes, a starting one at once.
    #[track_caller]
    pub(crate) fn wait_for_heartbeat_after(&self, before: &str) {
        self.wait_until_object("the restarted kubelet reports the node as ready", |object| {
            let heartbeat = ready(object)["lastHeartbeatTime"].as_str().unwrap_or_default().to_owned();
            is_ready(object) && heartbeat.as_str() > before
        });
    }

    /// Waits until the Node object is as expected.
    #[track_caller]
    pub(crate) fn wait_until_object(&self, what: &str, expected: impl Fn(&Value) -> bool) {
        for _ in 0..ATTEMPTS {
            if cluster::node(&self.name).is_some_and(|object| expected(&object)) {
                return;
            }
            // kubectl costs more than the rest of this test, so it is not run all the time.
            thread::sleep(Duration::from_secs(1));
        }
        panic!("{}: timed out waiting until {what}\n{}", self.name, self.machine.journal(None));
    }
}

fn ready(object: &Value) -> Value {
    let conditions = object["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.into_iter().find(|condition| condition["type"] == "Ready").unwrap_or_default()
}

/// Whether the Ready condition of a Node object is true.
pub(crate) fn is_ready(object: &Value) -> bool {
    ready(object)["status"] == "True"
}
