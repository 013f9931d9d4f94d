//! Reads the facts about the machine that rendering a document needs. All of them are read below the root.

use crate::os::{Contents, Root, clock};
use crate::sources::Endpoints;
use kiln_node_config::spec::{CredentialFrom, CredentialKind};
use kiln_node_plan::layout::{CLIENT_CERTIFICATE, IMAGE};
use kiln_node_plan::resolver::{UPSTREAM, uses_stub};
use kiln_node_plan::{Credential, Facts, FileState, Image, LOCAL_NVME, check_certificate, choose_temporary_disk};
use kiln_types::SecretBytes;

use crate::apply::Error;
use crate::node::Node;

const RESOLV_CONF: &str = "/etc/resolv.conf";

/// Shown in error messages instead of a path.
const CUSTOM_DATA: &str = "custom data";

/// A join credential that is known before `spec.credentialFrom` is read.
#[derive(Debug)]
pub enum KnownCredential {
    /// At a first boot: the credential that came with the document. Files on the disk may be a donor's.
    Given(Option<SecretBytes>),
    /// Later: the credential in the generation in force.
    Kept(Option<SecretBytes>),
}

/// Gathers the facts. `from` is `spec.credentialFrom`.
pub fn gather(node: &Node, from: &CredentialFrom, known: KnownCredential) -> Result<Facts, Error> {
    let root = &node.root;
    let mut image = match root.read_if_exists(IMAGE)? {
        Some(bytes) => serde_json::from_slice::<Image>(&bytes).map_err(Error::Image)?,
        None => Image::default(),
    };
    if image.resolv_conf.is_empty() && uses_stub_resolver(root)? {
        UPSTREAM.clone_into(&mut image.resolv_conf);
    }
    let joined = has_joined(node)?;
    let first_boot = matches!(known, KnownCredential::Given(_));
    let (given, kept) = match known {
        KnownCredential::Given(given) => (given, None),
        KnownCredential::Kept(kept) => (None, kept),
    };
    let credential = match credential(root, &node.endpoints, from, given) {
        Ok(found) => found,
        // A node that has joined, or still has its credential, needs no other.
        Err(_) if joined || kept.is_some() => kept.and_then(|bytes| Credential::parse(&bytes).ok()),
        Err(error) => return Err(error),
    };
    let temporary_disk = if image.temporary_disk.is_empty() { temporary_disk(root) } else { None };
    Ok(Facts {
        image,
        temporary_disk,
        host_name: root.host_name()?,
        cgroup_v2: root.kind("/sys/fs/cgroup/cgroup.controllers")?.is_some(),
        cpus: processors(&text(root, "/proc/cpuinfo")?),
        memory_bytes: memory(&text(root, "/proc/meminfo")?),
        credential,
        joined,
        first_boot,
        ..Facts::default()
    })
}

/// The temporary disk. Its names are links that udev makes.
fn temporary_disk(root: &Root) -> Option<String> {
    let by_id = root.text_names(LOCAL_NVME.0).unwrap_or_default();
    choose_temporary_disk(|device| root.kind(device).is_ok_and(|kind| kind.is_some()), &by_id)
}

/// Whether the kubelet has a certificate with which it can reach the API server. A machine that was off for long, or an image of one, has
/// an expired one, and a full disk leaves an empty file: such a kubelet has to join again.
fn has_joined(node: &Node) -> Result<bool, Error> {
    let Some(pem) = node.root.read_if_exists(CLIENT_CERTIFICATE)? else { return Ok(false) };
    let pem = SecretBytes::new(pem);
    match check_certificate(pem.expose(), &clock::rfc3339(clock::wall())) {
        Ok(()) => Ok(true),
        Err(unusable) => {
            node.log.warn(format!("the node does not count as joined: {unusable}"));
            Ok(false)
        }
    }
}

fn credential(
    root: &Root,
    endpoints: &Endpoints,
    from: &CredentialFrom,
    given: Option<SecretBytes>,
) -> Result<Option<Credential>, Error> {
    let missing = |name: &str| Error::NoCredential { name: name.to_owned() };
    let bytes = match from.kind {
        CredentialKind::CustomData => given.ok_or_else(|| missing(CUSTOM_DATA))?,
        CredentialKind::File | CredentialKind::ProtectedSettings => private_file(root, &from.name)?,
        CredentialKind::SystemCredential => {
            crate::sources::system_credential(endpoints, &from.name)?.ok_or_else(|| missing(&from.name))?
        }
        // An exec plugin fetches it when the kubelet needs it.
        CredentialKind::Unset | CredentialKind::AttestedIdentity | CredentialKind::ManagedIdentity => return Ok(None),
    };
    let parsed = Credential::parse(&bytes);
    let name = if from.name.is_empty() { CUSTOM_DATA } else { &from.name };
    parsed.map(Some).map_err(|source| Error::BadCredential { name: name.to_owned(), source })
}

fn private_file(root: &Root, path: &str) -> Result<SecretBytes, Error> {
    let Some(Contents { bytes, mode, uid, .. }) = root.contents_if_exists(path)? else {
        return Err(Error::NoCredential { name: path.to_owned() });
    };
    let bytes = SecretBytes::new(bytes);
    if mode & 0o077 != 0 {
        return Err(Error::CredentialExposed { path: path.to_owned(), mode });
    }
    // On a node kilnd runs as root. A user who plans on a folder owns the files there.
    if uid != 0 && uid != rustix::process::geteuid().as_raw() {
        return Err(Error::CredentialOwner { path: path.to_owned(), uid });
    }
    Ok(bytes)
}

/// Whether the resolver configuration of the machine cannot be used in pods.
fn uses_stub_resolver(root: &Root) -> Result<bool, crate::os::Error> {
    match root.file_state(RESOLV_CONF)? {
        FileState::Link { target } => Ok(uses_stub(Some(&target), "")),
        FileState::File { .. } => Ok(uses_stub(None, &text(root, RESOLV_CONF)?)),
        _ => Ok(false),
    }
}

fn text(root: &Root, path: &str) -> Result<String, crate::os::Error> {
    Ok(String::from_utf8_lossy(&root.read_if_exists(path)?.unwrap_or_default()).into_owned())
}

fn processors(cpuinfo: &str) -> u32 {
    let count = cpuinfo.lines().filter(|line| line.starts_with("processor")).count();
    u32::try_from(count).unwrap_or(u32::MAX)
}

fn memory(meminfo: &str) -> u64 {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = line.and_then(|rest| rest.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or_default().saturating_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_and_memory_are_read_from_proc() {
        assert_eq!(processors("processor\t: 0\nmodel\nprocessor\t: 1\n"), 2);
        assert_eq!(memory("MemTotal:       16384 kB\nMemFree: 1 kB\n"), 16 << 20);
        assert_eq!((processors(""), memory("")), (0, 0));
    }

    fn node(folder: &std::path::Path) -> Node {
        let words = ["status", "--root"].map(std::ffi::OsString::from).into_iter().chain([folder.into()]);
        Node::open(&crate::args::Args::parse(words).expect("a line").locations).expect("a root")
    }

    fn file() -> CredentialFrom {
        CredentialFrom { kind: CredentialKind::File, name: "/token".to_owned(), ..CredentialFrom::default() }
    }

    fn gathered(folder: &std::path::Path) -> Facts {
        gather(&node(folder), &CredentialFrom::default(), KnownCredential::Kept(None)).expect("facts")
    }

    fn put(folder: &std::path::Path, path: &str, text: &str) {
        let path = folder.join(path);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
        std::fs::write(path, text).expect("written");
    }

    #[test]
    fn temporary_disk_is_that_of_the_machine_unless_the_image_names_one() {
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(gathered(folder.path()).temporary_disk, None);
        let nvme = "dev/disk/by-id/nvme-Microsoft_NVMe_Direct_Disk_v2_a";
        put(folder.path(), nvme, "");
        assert_eq!(gathered(folder.path()).temporary_disk, Some(format!("/{nvme}")));
        put(folder.path(), "dev/disk/azure/resource-part1", "");
        assert_eq!(gathered(folder.path()).temporary_disk.as_deref(), Some("/dev/disk/azure/resource-part1"));
        put(folder.path(), &IMAGE[1..], r#"{"temporaryDisk": "/dev/own"}"#);
        assert_eq!(gathered(folder.path()).temporary_disk, None);
    }

    #[test]
    fn pods_get_the_name_servers_behind_the_stub_of_systemd_resolved() {
        let folder = tempfile::tempdir().expect("a folder");
        put(folder.path(), "etc/resolv.conf", "nameserver 10.0.0.10\n");
        assert_eq!(gathered(folder.path()).image.resolv_conf, "");
        std::fs::remove_file(folder.path().join("etc/resolv.conf")).expect("removed");
        let stub = "../run/systemd/resolve/stub-resolv.conf";
        std::os::unix::fs::symlink(stub, folder.path().join("etc/resolv.conf")).expect("a link");
        assert_eq!(gathered(folder.path()).image.resolv_conf, UPSTREAM, "at boot the target does not exist yet");
        put(folder.path(), &IMAGE[1..], r#"{"resolvConf": "/etc/own.conf"}"#);
        assert_eq!(gathered(folder.path()).image.resolv_conf, "/etc/own.conf");
    }

    #[test]
    fn credential_readable_by_others_is_rejected() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("token");
        std::fs::write(&path, "abcdef.0123456789abcdef\n").expect("written");
        let read = |mode| {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("mode");
            gather(&node(folder.path()), &file(), KnownCredential::Given(None))
        };
        let refused = read(0o644).expect_err("readable").to_string();
        assert!(refused.contains("0644") && !refused.contains("0123456789abcdef"), "{refused}");
        let facts = read(0o600).expect("private");
        assert_eq!(facts.credential.map(|credential| credential.kind()), Some("token"));
    }

    #[test]
    fn permissions_are_those_of_the_link_target() {
        use std::os::unix::fs::{PermissionsExt as _, symlink};
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("real");
        std::fs::write(&path, "abcdef.0123456789abcdef\n").expect("written");
        symlink("/real", folder.path().join("token")).expect("a link");
        let read = |mode| {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("mode");
            gather(&node(folder.path()), &file(), KnownCredential::Given(None))
        };
        let refused = read(0o644).expect_err("readable");
        assert!(matches!(refused, Error::CredentialExposed { mode: 0o644, .. }), "{refused}");
        let facts = read(0o400).expect("private");
        assert_eq!(facts.credential.map(|credential| credential.kind()), Some("token"));
        std::fs::remove_file(&path).expect("removed");
        std::fs::create_dir(&path).expect("a folder");
        let refused = read(0o700).expect_err("no file");
        assert!(matches!(refused, Error::Os(crate::os::Error::Kind { .. })), "{refused}");
    }

    #[test]
    fn credential_owned_by_another_user_is_rejected() {
        use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
        // Only root can change the owner of a file.
        assert!(rustix::process::geteuid().is_root(), "run as root");
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("real");
        std::fs::write(&path, "abcdef.0123456789abcdef\n").expect("written");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("mode");
        chown(&path, Some(1234), None).expect("owner changed");
        symlink("real", folder.path().join("token")).expect("a link");
        let refused = gather(&node(folder.path()), &file(), KnownCredential::Given(None)).expect_err("another owner");
        assert!(matches!(refused, Error::CredentialOwner { uid: 1234, .. }), "{refused}");
        assert!(!refused.to_string().contains("0123456789abcdef"), "{refused}");
    }

    #[test]
    fn joined_node_or_kept_credential_needs_no_other() {
        let folder = tempfile::tempdir().expect("a folder");
        let missing = gather(&node(folder.path()), &file(), KnownCredential::Given(None)).expect_err("none");
        assert!(matches!(missing, Error::NoCredential { .. }), "{missing}");
        let kept = SecretBytes::new("abcdef.0123456789abcdef");
        let facts = gather(&node(folder.path()), &file(), KnownCredential::Kept(Some(kept))).expect("kept");
        assert_eq!(facts.credential.map(|credential| credential.kind()), Some("token"));
        std::fs::create_dir_all(folder.path().join("var/lib/kubelet/pki")).expect("folder");
        std::fs::write(folder.path().join(&CLIENT_CERTIFICATE[1..]), certificate(4096)).expect("written");
        let facts = gather(&node(folder.path()), &file(), KnownCredential::Kept(None)).expect("joined");
        assert!(facts.joined && facts.credential.is_none());
    }

    /// A certificate that is valid until this year, with its key.
    fn certificate(year: i32) -> String {
        let key = rcgen::KeyPair::generate().expect("a key");
        let mut parameters = rcgen::CertificateParams::new(["node".to_owned()]).expect("a name");
        parameters.not_before = rcgen::date_time_ymd(2000, 1, 1);
        parameters.not_after = rcgen::date_time_ymd(year, 1, 1);
        parameters.self_signed(&key).expect("a certificate").pem() + &key.serialize_pem()
    }

    #[test]
    fn expired_or_empty_certificate_does_not_count_as_joined() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join(&CLIENT_CERTIFICATE[1..]);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("folder");
        let kept = || KnownCredential::Kept(Some(SecretBytes::new("abcdef.0123456789abcdef")));
        for (text, joined) in
            [(String::new(), false), (certificate(2020), false), (certificate(2049), true), (certificate(2051), true)]
        {
            std::fs::write(&path, text).expect("written");
            let facts = gather(&node(folder.path()), &file(), kept()).expect("a credential");
            assert_eq!(facts.joined, joined);
            let bare = gather(&node(folder.path()), &file(), KnownCredential::Kept(None));
            assert_eq!(bare.is_ok(), joined, "without a certificate the node needs its credential");
        }
    }

    #[test]
    fn credential_in_custom_data_is_used_only_if_the_document_names_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let node = node(folder.path());
        let token = || Some(SecretBytes::new("abcdef.0123456789abcdef"));
        let custom_data = CredentialFrom { kind: CredentialKind::CustomData, ..CredentialFrom::default() };
        let facts = gather(&node, &custom_data, KnownCredential::Given(token())).expect("given");
        assert_eq!(facts.credential.map(|credential| credential.kind()), Some("token"));
        let missing = gather(&node, &custom_data, KnownCredential::Given(None)).expect_err("none").to_string();
        assert!(missing.contains("`custom data`"), "{missing}");
        let garbage = gather(&node, &custom_data, KnownCredential::Given(Some(SecretBytes::new("hunter2 hunter2"))));
        let garbage = garbage.expect_err("no credential").to_string();
        assert!(garbage.contains("`custom data`") && !garbage.contains("hunter2"), "{garbage}");
        assert!(gather(&node, &file(), KnownCredential::Given(token())).is_err(), "the document names a file");
        let facts = gather(&node, &custom_data, KnownCredential::Kept(token())).expect("kept");
        assert_eq!(facts.credential.map(|credential| credential.kind()), Some("token"));
    }
}
