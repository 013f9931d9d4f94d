//! What is known of the machine before a document is rendered for it. Everything is read below the root, so that another root has its own.

use kiln_guest::Endpoints;
use kiln_host::{Contents, Root};
use kiln_node_config::spec::{CredentialFrom, CredentialKind};
use kiln_node_plan::layout::{CLIENT_CERTIFICATE, IMAGE};
use kiln_node_plan::{BadCredential, Credential, Facts, Image};
use kiln_types::SecretBytes;

use crate::node::Node;

/// How custom data is called where a file would have its path.
const CUSTOM_DATA: &str = "custom data";

/// What keeps the machine from being known.
#[derive(Debug, thiserror::Error)]
pub enum FactsError {
    /// A file cannot be read.
    #[error(transparent)]
    Host(#[from] kiln_host::Error),
    /// The image's own list is not what it should be.
    #[error("`{IMAGE}` cannot be read; the image must be made anew")]
    Image(#[source] serde_json::Error),
    /// Others can read the credential, so it may be theirs already.
    #[error("`{path}` has mode {mode:04o}: a credential that others read is not used; `chmod 600 {path}` and renew it")]
    Exposed { path: String, mode: u32 },
    /// Somebody else can change it, so it may be of their making.
    #[error(
        "`{path}` belongs to user {uid}: a credential of another user is not used; `chown root {path}` and renew it"
    )]
    Foreign { path: String, uid: u32 },
    /// There is no credential where the document says.
    #[error("there is no credential at `{place}`, where `spec.credentialFrom` says; put it there and run again")]
    NoCredential {
        /// The file or the name.
        place: String,
    },
    /// What is there is no credential.
    #[error("`{place}`, where `spec.credentialFrom` says")]
    BadCredential {
        /// The file or the name.
        place: String,
        #[source]
        source: BadCredential,
    },
    /// The platform does not hand it over.
    #[error(transparent)]
    Guest(#[from] kiln_guest::GuestError),
}

/// What is held already of what a node joins with.
#[derive(Debug)]
pub enum Held {
    /// At a first boot: the credential that came with the document. What is on the disk may be another machine's.
    Given(Option<SecretBytes>),
    /// Later: what the generation in force joined with.
    Kept(Option<SecretBytes>),
}

/// Looks at the machine. `from` says where the credential is that the node joins with.
pub fn gather(node: &Node, from: &CredentialFrom, held: Held) -> Result<Facts, FactsError> {
    let root = &node.root;
    let image = match root.read_if_there(IMAGE)? {
        Some(bytes) => serde_json::from_slice::<Image>(&bytes).map_err(FactsError::Image)?,
        None => Image::default(),
    };
    let joined = root.kind(CLIENT_CERTIFICATE)?.is_some();
    let first_boot = matches!(held, Held::Given(_));
    let (given, kept) = match held {
        Held::Given(given) => (given, None),
        Held::Kept(kept) => (None, kept),
    };
    let credential = match credential(root, &node.endpoints, from, given) {
        Ok(found) => found,
        // Who has joined, or still has what it is to join with, needs no other.
        Err(_) if joined || kept.is_some() => kept.and_then(|bytes| Credential::parse(&bytes).ok()),
        Err(error) => return Err(error),
    };
    Ok(Facts {
        image,
        host_name: root.host_name()?,
        cgroup_v2: root.kind("/sys/fs/cgroup/cgroup.controllers")?.is_some(),
        cpus: processors(&text(root, "/proc/cpuinfo")?),
        memory_bytes: memory(&text(root, "/proc/meminfo")?),
        credential,
        joined,
        first_boot,
    })
}

fn credential(
    root: &Root,
    endpoints: &Endpoints,
    from: &CredentialFrom,
    given: Option<SecretBytes>,
) -> Result<Option<Credential>, FactsError> {
    let missing = |place: &str| FactsError::NoCredential { place: place.to_owned() };
    let bytes = match from.kind {
        CredentialKind::CustomData => given.ok_or_else(|| missing(CUSTOM_DATA))?,
        CredentialKind::File | CredentialKind::ProtectedSettings => private_file(root, &from.name)?,
        CredentialKind::SystemCredential => {
            kiln_guest::system_credential(endpoints, &from.name)?.ok_or_else(|| missing(&from.name))?
        }
        // A program on the node asks for it when the kubelet needs it.
        CredentialKind::Unset | CredentialKind::AttestedIdentity | CredentialKind::ManagedIdentity => return Ok(None),
    };
    let parsed = Credential::parse(&bytes);
    let place = if from.name.is_empty() { CUSTOM_DATA } else { &from.name };
    parsed.map(Some).map_err(|source| FactsError::BadCredential { place: place.to_owned(), source })
}

fn private_file(root: &Root, path: &str) -> Result<SecretBytes, FactsError> {
    let Some(Contents { bytes, mode, uid }) = root.contents_if_there(path)? else {
        return Err(FactsError::NoCredential { place: path.to_owned() });
    };
    let bytes = SecretBytes::new(bytes);
    if mode & 0o077 != 0 {
        return Err(FactsError::Exposed { path: path.to_owned(), mode });
    }
    // On a node we are the superuser; whoever tries a document on a folder has files of their own there.
    if uid != 0 && uid != rustix::process::geteuid().as_raw() {
        return Err(FactsError::Foreign { path: path.to_owned(), uid });
    }
    Ok(bytes)
}

fn text(root: &Root, path: &str) -> Result<String, kiln_host::Error> {
    Ok(String::from_utf8_lossy(&root.read_if_there(path)?.unwrap_or_default()).into_owned())
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
    fn a_machine_is_counted_by_its_own_files() {
        assert_eq!(processors("processor\t: 0\nmodel\nprocessor\t: 1\n"), 2);
        assert_eq!(memory("MemTotal:       16384 kB\nMemFree: 1 kB\n"), 16 << 20);
        assert_eq!((processors(""), memory("")), (0, 0));
    }

    fn node(folder: &std::path::Path) -> Node {
        let words = ["status", "--root"].map(std::ffi::OsString::from).into_iter().chain([folder.into()]);
        Node::open(&crate::args::Args::parse(words).expect("a line").places).expect("a root")
    }

    fn file() -> CredentialFrom {
        CredentialFrom { kind: CredentialKind::File, name: "/token".to_owned(), ..CredentialFrom::default() }
    }

    #[test]
    fn a_credential_that_others_read_is_not_used() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("token");
        std::fs::write(&path, "abcdef.0123456789abcdef\n").expect("written");
        let look = |mode| {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("mode");
            gather(&node(folder.path()), &file(), Held::Given(None))
        };
        let refused = look(0o644).expect_err("readable").to_string();
        assert!(refused.contains("0644") && !refused.contains("0123456789abcdef"), "{refused}");
        let facts = look(0o600).expect("private");
        assert_eq!(facts.credential.map(|credential| credential.kind()), Some("token"));
    }

    #[test]
    fn behind_a_link_the_rights_of_the_credential_itself_count() {
        use std::os::unix::fs::{PermissionsExt as _, symlink};
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("real");
        std::fs::write(&path, "abcdef.0123456789abcdef\n").expect("written");
        symlink("/real", folder.path().join("token")).expect("a link");
        let look = |mode| {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("mode");
            gather(&node(folder.path()), &file(), Held::Given(None))
        };
        let refused = look(0o644).expect_err("readable");
        assert!(matches!(refused, FactsError::Exposed { mode: 0o644, .. }), "{refused}");
        let facts = look(0o400).expect("private");
        assert_eq!(facts.credential.map(|credential| credential.kind()), Some("token"));
        std::fs::remove_file(&path).expect("removed");
        std::fs::create_dir(&path).expect("a folder");
        let refused = look(0o700).expect_err("no file");
        assert!(matches!(refused, FactsError::Host(kiln_host::Error::Kind { .. })), "{refused}");
    }

    #[test]
    fn a_credential_of_another_user_is_not_used() {
        use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
        // Only the superuser can give a file away.
        assert!(rustix::process::geteuid().is_root(), "run as root");
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("real");
        std::fs::write(&path, "abcdef.0123456789abcdef\n").expect("written");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).expect("mode");
        chown(&path, Some(1234), None).expect("given away");
        symlink("real", folder.path().join("token")).expect("a link");
        let refused = gather(&node(folder.path()), &file(), Held::Given(None)).expect_err("of another");
        assert!(matches!(refused, FactsError::Foreign { uid: 1234, .. }), "{refused}");
        assert!(!refused.to_string().contains("0123456789abcdef"), "{refused}");
    }

    #[test]
    fn who_has_joined_or_still_has_a_credential_needs_no_other() {
        let folder = tempfile::tempdir().expect("a folder");
        let missing = gather(&node(folder.path()), &file(), Held::Given(None)).expect_err("none");
        assert!(matches!(missing, FactsError::NoCredential { .. }), "{missing}");
        let kept = SecretBytes::new("abcdef.0123456789abcdef");
        let facts = gather(&node(folder.path()), &file(), Held::Kept(Some(kept))).expect("kept");
        assert_eq!(facts.credential.map(|credential| credential.kind()), Some("token"));
        std::fs::create_dir_all(folder.path().join("var/lib/kubelet/pki")).expect("folder");
        std::fs::write(folder.path().join(&CLIENT_CERTIFICATE[1..]), "pem").expect("written");
        let facts = gather(&node(folder.path()), &file(), Held::Kept(None)).expect("joined");
        assert!(facts.joined && facts.credential.is_none());
    }

    #[test]
    fn a_credential_that_came_with_the_document_counts_only_where_the_document_says_so() {
        let folder = tempfile::tempdir().expect("a folder");
        let node = node(folder.path());
        let token = || Some(SecretBytes::new("abcdef.0123456789abcdef"));
        let custom_data = CredentialFrom { kind: CredentialKind::CustomData, ..CredentialFrom::default() };
        let facts = gather(&node, &custom_data, Held::Given(token())).expect("given");
        assert_eq!(facts.credential.map(|credential| credential.kind()), Some("token"));
        let missing = gather(&node, &custom_data, Held::Given(None)).expect_err("none").to_string();
        assert!(missing.contains("`custom data`"), "{missing}");
        let garbage = gather(&node, &custom_data, Held::Given(Some(SecretBytes::new("hunter2 hunter2"))));
        let garbage = garbage.expect_err("no credential").to_string();
        assert!(garbage.contains("`custom data`") && !garbage.contains("hunter2"), "{garbage}");
        assert!(gather(&node, &file(), Held::Given(token())).is_err(), "the document says a file");
        let facts = gather(&node, &custom_data, Held::Kept(token())).expect("kept from the first boot");
        assert_eq!(facts.credential.map(|credential| credential.kind()), Some("token"));
    }
}
