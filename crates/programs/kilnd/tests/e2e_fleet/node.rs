//! One node: a machine with real systemd, containerd, kubelet and kilnd.

use std::collections::BTreeSet;

use control_plane::ControlPlane;
use test_deps::TestDep;
use testkit::nspawn::Machine;
use testkit::require;

use super::booted::cloud::Cloud;
use super::booted::cluster::{TOKEN, real};
use super::booted::document::{Document, ovf_env_with_credential};
use super::booted::stage::Stage;
use super::image::archive;

/// Records the boot id of each start of the kubelet, in a file that outlives reboots. It is read after the drop-in of kilnd, which removes the commands
/// of the image.
const COUNT: &str =
    "[Service]\nExecStartPre=/bin/sh -c 'cat /proc/sys/kernel/random/boot_id >>/var/lib/kubelet-starts'\n";

/// How often things happened on a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) kubelet_starts: usize,
    pub(crate) boots: usize,
}

impl Counts {
    /// The difference to an earlier count.
    pub(crate) fn since(self, before: Self) -> Self {
        Self { kubelet_starts: self.kubelet_starts - before.kubelet_starts, boots: self.boots - before.boots }
    }
}

pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) zone: &'static str,
    pub(crate) pool: &'static str,
    pub(crate) machine: Machine,
    /// Whether the test has switched it off. Otherwise a machine that ends is started again, as after a reboot.
    pub(crate) is_kept_off: bool,
    _cloud: Cloud,
}

impl Node {
    /// A machine that is off. Its provisioning media has the first document.
    pub(crate) fn new(
        number: u8,
        zone: &'static str,
        pool: &'static str,
        plane: &ControlPlane,
        first: &Document,
    ) -> Self {
        let name = format!("node-{number}");
        let debian = require(TestDep::NodeRoot);
        let debian = debian.ancestors().nth(3).expect("a root");
        let machine = real(&name)
            // For runc: it creates a session keyring and device filters.
            .argument("--system-call-filter=@keyring bpf")
            .file("/usr/share/images.tar", archive(&debian.join("usr/bin/true"), debian))
            .file("/etc/systemd/system/kubelet.service.d/zzz-count.conf", COUNT)
            .build();
        machine.hardware("dmi/product_uuid", format!("16a52d90-3c5f-4a3e-8b57-7f2b4c6d8e{number:02x}"));
        let token = format!("{}.{}", TOKEN.0, TOKEN.1);
        machine.hardware("cd/ovf-env.xml", ovf_env_with_credential(&name, first, &token));
        machine.network().forward(plane.address());
        let cloud = Cloud::start(&machine);
        Self { name, zone, pool, machine, is_kept_off: false, _cloud: cloud }
    }

    /// Imports the image of pods.
    pub(crate) fn import_images(&self) {
        self.machine.shell("ctr --namespace k8s.io images import /usr/share/images.tar");
    }

    pub(crate) fn counts(&self) -> Counts {
        let text = self.machine.read("/var/lib/kubelet-starts").unwrap_or_default();
        let boots: BTreeSet<&str> = text.lines().collect();
        Counts { kubelet_starts: text.lines().count(), boots: boots.len() }
    }

    /// Stops the process of `kilnd watch`, so that the test decides when the node answers.
    pub(crate) fn freeze_kilnd(&self) {
        self.machine.shell("systemctl kill --signal=SIGSTOP kiln-watch.service");
    }

    pub(crate) fn thaw_kilnd(&self) {
        self.machine.shell("systemctl kill --signal=SIGCONT kiln-watch.service");
    }

    /// The number of documents that this node has reverted or rejected.
    pub(crate) fn rejected(&self) -> usize {
        Stage::json(&self.machine, "/var/lib/kiln/state.json")["rejected"].as_array().map_or(0, Vec::len)
    }
}
