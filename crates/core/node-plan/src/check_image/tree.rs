//! A read-only view of a root folder.

/// A root folder. Paths are absolute and links are followed inside it, as in a chroot. What cannot be read does not exist.
pub trait Tree {
    /// The entry at a path, links followed; none if it does not exist.
    fn entry(&self, path: &str) -> Option<Entry>;

    /// The target of a symbolic link; none if the path is not a link.
    fn link(&self, path: &str) -> Option<String>;

    /// The bytes of a regular file.
    fn read(&self, path: &str) -> Option<Vec<u8>>;

    /// The names in a folder, sorted.
    fn names(&self, folder: &str) -> Vec<String>;

    /// The SELinux label of an entry.
    fn label(&self, path: &str) -> Option<String>;
}

/// An entry of a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    pub kind: EntryKind,
    /// The permission bits.
    pub mode: u32,
    pub size: u64,
}

/// The type of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    File,
    Folder,
    /// A device, a socket or a pipe.
    Other,
}

/// Folders of the search path for programs.
const PROGRAM_FOLDERS: [&str; 6] = ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

impl dyn Tree + '_ {
    pub(super) fn exists(&self, path: &str) -> bool {
        self.entry(path).is_some()
    }

    pub(super) fn is_folder(&self, path: &str) -> bool {
        self.entry(path).is_some_and(|entry| entry.kind == EntryKind::Folder)
    }

    pub(super) fn is_executable(&self, path: &str) -> bool {
        self.entry(path).is_some_and(|entry| entry.kind == EntryKind::File && entry.mode & 0o111 != 0)
    }

    /// A file as text. Invalid UTF-8 is replaced.
    pub(super) fn text(&self, path: &str) -> Option<String> {
        Some(String::from_utf8_lossy(&self.read(path)?).into_owned())
    }

    /// The paths that match a pattern, sorted. `*` matches any characters except `/` and a leading dot.
    pub(super) fn glob(&self, pattern: &str) -> Vec<String> {
        let mut found = vec![String::new()];
        for part in pattern.trim_start_matches('/').split('/') {
            let mut next = Vec::new();
            for folder in found {
                if part.contains('*') {
                    let names = self.names(if folder.is_empty() { "/" } else { &folder });
                    next.extend(
                        names.into_iter().filter(|name| fits(part, name)).map(|name| format!("{folder}/{name}")),
                    );
                } else {
                    let path = format!("{folder}/{part}");
                    if self.exists(&path) || self.link(&path).is_some() {
                        next.push(path);
                    }
                }
            }
            found = next;
        }
        found
    }

    /// The path of a program; an absolute one is only checked.
    pub(super) fn program(&self, name: &str) -> Option<String> {
        if name.starts_with('/') {
            return self.is_executable(name).then(|| name.to_owned());
        }
        PROGRAM_FOLDERS.iter().map(|folder| format!("{folder}/{name}")).find(|path| self.is_executable(path))
    }

    /// Whether another unit wants or requires this one, by a link in any folder of the search path.
    pub(super) fn is_wanted(&self, unit: &str) -> bool {
        super::unit_file::FOLDERS.iter().any(|folder| {
            ["wants", "requires"].iter().any(|ending| !self.glob(&format!("{folder}/*.{ending}/{unit}")).is_empty())
        })
    }
}

/// Whether a name matches a pattern with any number of `*`.
pub(super) fn fits(pattern: &str, name: &str) -> bool {
    if name.starts_with('.') && !pattern.starts_with('.') {
        return false;
    }
    let mut parts = pattern.split('*');
    let Some(mut rest) = name.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}
