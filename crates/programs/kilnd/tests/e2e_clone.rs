//! Clones: a disk that boots in another machine gets a new identity before any other service reads the old one.

mod booted;

use std::collections::BTreeMap;

use booted::document::{max_pods, ovf_env};
use booted::stage::Stage;
use booted::{ONE, OTHER, THIRD};
use testkit::IDENTITY;
use testkit::nspawn::{Blueprint, Machine};

/// The identity values on a machine's disk.
fn identity(machine: &Machine) -> BTreeMap<&'static str, String> {
    IDENTITY.iter().map(|(name, line)| (*name, machine.shell(line).stdout.trim().to_owned())).collect()
}

/// Plants machine-specific ids and keys.
fn plant_ids(machine: &Machine) {
    machine.shell(
        "mkdir -p /etc/iscsi /etc/nvme
         echo InitiatorName=iqn.1993-08.org.debian:01:donor >/etc/iscsi/initiatorname.iscsi
         echo 0f1e2d3c-0000-1111-2222-333344445555 >/etc/nvme/hostid
         head -c 512 /dev/urandom >/var/lib/systemd/random-seed
         rm -f /etc/ssh/ssh_host_rsa_key*
         ssh-keygen -q -t rsa -b 1024 -N '' -f /etc/ssh/ssh_host_rsa_key
         test -e /etc/ssh/ssh_host_ed25519_key || ssh-keygen -q -t ed25519 -N '' -f /etc/ssh/ssh_host_ed25519_key",
    );
}

/// Plants the traces of a running node: leases, certificates, tenants' data, images.
fn plant_node_state(machine: &Machine) {
    machine.shell(
        "mkdir -p /var/lib/dhcp /var/lib/kubelet/pki /var/lib/kubelet/pods/1/volumes /var/log/pods/p \
         /root/.ssh /var/lib/containerd/io.containerd.content.v1.content/blobs /var/lib/cni/networks
         echo donor-duid >/var/lib/dhcp/dhclient6.duid
         echo donor-lease >/var/lib/dhcp/eth0.leases
         echo donor-certificate >/var/lib/kubelet/pki/kubelet-client-current.pem
         echo tenant-secret >/var/lib/kubelet/pods/1/volumes/data
         echo tenant-log >/var/log/pods/p/0.log
         echo donor-address >/var/lib/cni/networks/10.0.0.1
         echo donor-typed >/root/.bash_history
         echo donor-login >/root/.ssh/authorized_keys
         systemd-creds setup
         echo image-layer >/var/lib/containerd/io.containerd.content.v1.content/blobs/layer",
    );
}

/// Planted texts that must not be on a clone.
const GONE: [&str; 9] = [
    "donor-duid",
    "donor-lease",
    "donor-certificate",
    "tenant-secret",
    "tenant-log",
    "donor-address",
    "donor-typed",
    "donor-login",
    "org.debian:01:donor",
];

#[track_caller]
fn boot_clone(name: &str, donor: &Machine, id: &str, host: &str) -> Machine {
    boot_as(Stage::with_fakes(name).disk_of(donor), id, host)
}

#[track_caller]
fn boot_as(clone: Blueprint, id: &str, host: &str) -> Machine {
    let mut clone = clone.build();
    clone.hardware("dmi/product_uuid", id);
    clone.hardware("cd/ovf-env.xml", ovf_env(host, Some(&max_pods(1, 30))));
    clone.boot();
    clone.wait_until("the clone's VM id is recorded and generation 1 is committed", |machine| {
        let recorded = machine.read("/var/lib/kiln/vm-id").unwrap_or_default();
        (recorded.trim().eq_ignore_ascii_case(id) && Stage::committed(machine) == Some(1)).then_some(())
    });
    clone
}

#[test]
fn clones_have_distinct_identities_and_keep_the_image_cache() {
    let mut donor = Stage::with_fakes("donor").build();
    donor.hardware("dmi/product_uuid", ONE);
    donor.hardware("cd/ovf-env.xml", ovf_env("donor", Some(&max_pods(1, 30))));
    donor.boot();
    Stage::wait_committed(&donor, 1);
    plant_ids(&donor);
    plant_node_state(&donor);
    let first = boot_clone("first", &donor, OTHER, "node-2");
    let second = boot_clone("second", &donor, THIRD, "node-3");
    plant_node_state(&first);
    let grandchild = boot_clone("grandchild", &first, &THIRD.replace('c', "d"), "node-4");
    let machines = [&donor, &first, &second, &grandchild];
    let identities: Vec<_> = machines.iter().map(|machine| identity(machine)).collect();
    for (name, _) in IDENTITY {
        let mut values: Vec<_> = identities.iter().map(|identity| identity[name].clone()).collect();
        assert!(values.iter().all(|value| !value.is_empty()), "{name}: {values:?}");
        values.sort();
        values.dedup();
        assert_eq!(values.len(), machines.len(), "{name}: {values:?}");
    }
    for clone in [&second, &grandchild] {
        for text in GONE {
            let found = clone.run(&["grep", "-rlsI", text, "/etc", "/var", "/root", "/home"]);
            assert_eq!(found.stdout, "", "{text}");
        }
        // Deferred work may or may not have created the RSA key yet; it must not be the donor's.
        assert_ne!(clone.read("/etc/ssh/ssh_host_rsa_key.pub"), donor.read("/etc/ssh/ssh_host_rsa_key.pub"));
        let layer = clone.read("/var/lib/containerd/io.containerd.content.v1.content/blobs/layer");
        assert_eq!(layer.as_deref(), Some("image-layer\n"), "the image cache is kept");
        assert_eq!(Stage::json(clone, "/run/kiln/boot.json")["kind"], "clone");
    }
    let ancestry = grandchild.read("/var/lib/kiln/ancestry.log").unwrap_or_default();
    assert!(ancestry.contains(ONE) && ancestry.contains(OTHER), "{ancestry}");
}

#[test]
fn clone_identity_is_reset_before_journal_bus_network_and_kubelet_start() {
    let mut donor = Stage::with_fakes("before").build();
    donor.hardware("dmi/product_uuid", ONE);
    donor.hardware("cd/ovf-env.xml", ovf_env("donor", Some(&max_pods(1, 30))));
    donor.boot();
    Stage::wait_committed(&donor, 1);
    donor.power_off();
    let mut clone = Stage::with_fakes("early").disk_of(&donor).argument("--capability=CAP_NET_ADMIN");
    for unit in ["systemd-networkd.service", "ssh.service"] {
        let wants = format!("/etc/systemd/system/multi-user.target.wants/{unit}");
        clone = clone.link(&wants, &format!("/usr/lib/systemd/system/{unit}"));
    }
    let clone = boot_as(clone, OTHER, "node-2");
    assert_eq!(clone.settled(), "running", "{}", clone.journal(None));
    let usec = |unit: &str, property: &str| clone.property(unit, property).parse::<u64>().unwrap_or_default();
    let done = usec("kiln-identity.service", "ActiveEnterTimestampMonotonic");
    assert!(done > 0);
    for unit in [
        "systemd-journal-flush.service",
        "systemd-networkd.service",
        "dbus.service",
        "ssh.service",
        "kubelet.service",
        "kiln-config.service",
    ] {
        let started = usec(unit, "InactiveExitTimestampMonotonic");
        assert!(started > done, "{unit} started at {started}, the identity was ready at {done}");
    }
}
