//! The archive of an RPM: cpio in the format `newc`.

use crate::Digest;

const FOLDER: u16 = 0o040_000;
const FILE: u16 = 0o100_000;
const LINK: u16 = 0o120_000;

/// A file, folder or link of a package.
#[derive(Clone, Debug)]
pub(super) struct Member {
    /// Relative to the root.
    pub(super) path: String,
    kind: u16,
    mode: u32,
    /// The target of a link.
    pub(super) content: Vec<u8>,
}

impl Member {
    pub(super) fn file(path: &str, mode: u32, content: Vec<u8>) -> Self {
        Self { path: path.to_owned(), kind: FILE, mode, content }
    }

    pub(super) fn folder(path: &str) -> Self {
        Self { path: path.to_owned(), kind: FOLDER, mode: 0o755, content: Vec::new() }
    }

    pub(super) fn link(path: &str, target: &str) -> Self {
        Self { path: path.to_owned(), kind: LINK, mode: 0o777, content: target.into() }
    }

    /// Kind and permissions.
    pub(super) fn mode_bits(&self) -> u16 {
        self.kind | u16::try_from(self.mode & 0o7777).unwrap_or_default()
    }

    /// The digest of a file; empty for folders and links.
    pub(super) fn digest(&self) -> String {
        if self.kind == FILE { Digest::compute(&self.content).hex() } else { String::new() }
    }

    pub(super) fn is_configuration(&self) -> bool {
        self.kind == FILE && self.path.starts_with("etc/")
    }

    pub(super) fn link_target(&self) -> String {
        if self.kind == LINK { String::from_utf8_lossy(&self.content).into_owned() } else { String::new() }
    }
}

/// The archive. Everything belongs to root and has the epoch as time.
pub(super) fn archive(members: &[Member]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (index, member) in members.iter().enumerate() {
        let links = if member.kind == FOLDER { 2 } else { 1 };
        append(&mut bytes, &format!("./{}", member.path), index + 1, member.mode_bits().into(), links, &member.content);
    }
    append(&mut bytes, "TRAILER!!!", 0, 0, 1, &[]);
    bytes
}

fn append(bytes: &mut Vec<u8>, name: &str, inode: usize, mode: usize, links: usize, content: &[u8]) {
    let fields = [inode, mode, 0, 0, links, 0, content.len(), 0, 0, 0, 0, name.len() + 1, 0];
    bytes.extend(b"070701");
    for field in fields {
        bytes.extend(format!("{field:08x}").bytes());
    }
    bytes.extend(name.bytes().chain([0]));
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes.extend(content);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
}
