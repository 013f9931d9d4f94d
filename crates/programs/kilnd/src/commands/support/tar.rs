//! A tar file (ustar) of small files in memory.

/// The size of a header, and the unit of everything else.
const BLOCK: usize = 512;
/// Only the owner may read the files.
const MODE: u32 = 0o600;
/// The longest name without a prefix field.
const NAME: usize = 100;

/// A tar file under construction.
#[derive(Debug, Default)]
pub(super) struct Tar {
    bytes: Vec<u8>,
}

impl Tar {
    /// Adds a file. `time` is in seconds since 1970.
    pub(super) fn add(&mut self, name: &str, content: &[u8], time: u64) {
        let mut header = [0; BLOCK];
        let (prefix, name) = split(name);
        put(&mut header, 0, name.as_bytes());
        put(&mut header, 100, format!("{MODE:07o}").as_bytes());
        put(&mut header, 108, b"0000000");
        put(&mut header, 116, b"0000000");
        put(&mut header, 124, format!("{:011o}", content.len()).as_bytes());
        put(&mut header, 136, format!("{time:011o}").as_bytes());
        put(&mut header, 148, b"        ");
        put(&mut header, 156, b"0");
        put(&mut header, 257, b"ustar\x0000");
        put(&mut header, 345, prefix.as_bytes());
        let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
        put(&mut header, 148, format!("{sum:06o}\0 ").as_bytes());
        self.bytes.extend_from_slice(&header);
        self.bytes.extend_from_slice(content);
        self.bytes.resize(self.bytes.len().next_multiple_of(BLOCK), 0);
    }

    /// The finished file.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.bytes.resize(self.bytes.len() + 2 * BLOCK, 0);
        self.bytes
    }
}

fn put(header: &mut [u8; BLOCK], at: usize, bytes: &[u8]) {
    header[at..at + bytes.len()].copy_from_slice(bytes);
}

/// Splits a long name at a slash: 155 bytes of folders, 100 bytes after them. An even longer name is cut.
fn split(name: &str) -> (&str, &str) {
    if name.len() <= NAME {
        return ("", name);
    }
    let slash = name.match_indices('/').map(|(at, _)| at).find(|at| name.len() - at - 1 <= NAME && *at <= 155);
    slash.map_or(("", &name[name.len() - NAME..]), |at| (&name[..at], &name[at + 1..]))
}
