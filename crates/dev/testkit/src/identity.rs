//! The identity of a machine.

/// The parts of a machine's identity, which no two machines may share, with the shell command that reads each.
pub const IDENTITY: [(&str, &str); 10] = [
    ("machine id", "cat /etc/machine-id"),
    ("machine id of dbus", "cat /var/lib/dbus/machine-id 2>/dev/null || cat /etc/machine-id"),
    ("host name", "cat /etc/hostname"),
    ("name in use", "hostname"),
    ("ssh host key", "ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key"),
    ("iSCSI initiator", "cat /etc/iscsi/initiatorname.iscsi"),
    ("NVMe host id", "cat /etc/nvme/hostid"),
    ("random seed", "sha256sum </var/lib/systemd/random-seed"),
    // A machine without a secret gets one here, as when it is first needed. systemd might replace an existing one, so it is not called then.
    (
        "secret of system credentials",
        "file=/var/lib/systemd/credential.secret; test -e $file || systemd-creds setup >/dev/null; sha256sum <$file",
    ),
    ("recorded machine", "cat /var/lib/kiln/vm-id"),
];
