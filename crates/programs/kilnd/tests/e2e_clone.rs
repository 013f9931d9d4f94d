//! Clones: a disk that wakes up in another machine becomes a machine of its own before anybody reads who it was.

mod booted;

use std::collections::BTreeMap;

use booted::document::{max_pods, ovf_env};
use booted::stage::Stage;
use booted::{ONE, OTHER, THIRD};
use testkit::IDENTITY;
use testkit::nspawn::{Blueprint, Machine};

/// What a disk says about its machine.
fn identity(machine: &Machine) -> BTreeMap<&'static str, String> {
    IDENTITY.iter().map(|(name, line)| (*name, machine.shell(line).stdout.trim().to_owned())).collect()
}

/// Plants ids and keys of a machine.
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

/// Plants what a life as a node leaves: leases, certificates, tenants' data, images.
fn plant_life(machine: &Machine) {
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

/// What must not be found on a clone, by what was planted.
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
    boot_as(Stage::with_stand_ins(name).disk_of(donor), id, host)
}

#[track_caller]
fn boot_as(clone: Blueprint, id: &str, host: &str) -> Machine {
    let mut clone = clone.build();
    clone.hardware("dmi/product_uuid", id);
    clone.hardware("cd/ovf-env.xml", ovf_env(host, Some(&max_pods(1, 30))));
    clone.boot();
    clone.wait_until("the disk is the clone's own", |machine| {
        let recorded = machine.read("/var/lib/kiln/vm-id").unwrap_or_default();
        (recorded.trim().eq_ignore_ascii_case(id) && Stage::committed(machine) == Some(1)).then_some(())
    });
    clone
}

#[test]
fn two_clones_and_a_clone_of_a_clone_differ_everywhere_and_keep_what_makes_them_quick() {
    let mut donor = Stage::with_stand_ins("donor").build();
    donor.hardware("dmi/product_uuid", ONE);
    donor.hardware("cd/ovf-env.xml", ovf_env("donor", Some(&max_pods(1, 30))));
    donor.boot();
    Stage::wait_committed(&donor, 1);
    plant_ids(&donor);
    plant_life(&donor);
    let first = boot_clone("first", &donor, OTHER, "node-2");
    let second = boot_clone("second", &donor, THIRD, "node-3");
    plant_life(&first);
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
        for word in GONE {
            let found = clone.run(&["grep", "-rlsI", word, "/etc", "/var", "/root", "/home"]);
            assert_eq!(found.stdout, "", "{word}");
        }
        // Late work makes keys of other kinds; whether it has yet or not, none is the donor's.
        assert_ne!(clone.read("/etc/ssh/ssh_host_rsa_key.pub"), donor.read("/etc/ssh/ssh_host_rsa_key.pub"));
        let layer = clone.read("/var/lib/containerd/io.containerd.content.v1.content/blobs/layer");
        assert_eq!(layer.as_deref(), Some("image-layer\n"), "images stay");
        assert_eq!(Stage::json(clone, "/run/kiln/boot.json")["kind"], "clone");
    }
    let ancestry = grandchild.read("/var/lib/kiln/ancestry.log").unwrap_or_default();
    assert!(ancestry.contains(ONE) && ancestry.contains(OTHER), "{ancestry}");
}

#[test]
fn a_clone_is_itself_before_journal_bus_network_and_kubelet_begin() {
    let mut donor = Stage::with_stand_ins("before").build();
    donor.hardware("dmi/product_uuid", ONE);
    donor.hardware("cd/ovf-env.xml", ovf_env("donor", Some(&max_pods(1, 30))));
    donor.boot();
    Stage::wait_committed(&donor, 1);
    donor.power_off();
    let mut clone = Stage::with_stand_ins("early").disk_of(&donor).argument("--capability=CAP_NET_ADMIN");
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
        let began = usec(unit, "InactiveExitTimestampMonotonic");
        assert!(began > done, "{unit} began at {began}, the identity was there at {done}");
    }
}
