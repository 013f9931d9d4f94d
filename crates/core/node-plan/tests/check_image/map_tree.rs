//! A root folder in memory.

use std::collections::BTreeMap;

use kiln_node_plan::check_image::{Entry, EntryKind, Tree};

/// Files and links by path. Folders exist as far as they contain something.
#[derive(Clone, Debug, Default)]
pub(crate) struct MapTree {
    files: BTreeMap<String, (Vec<u8>, u32)>,
    links: BTreeMap<String, String>,
    labels: BTreeMap<String, String>,
}

impl MapTree {
    pub(crate) fn put(&mut self, path: &str, content: &str) -> &mut Self {
        self.files.insert(path.to_owned(), (content.as_bytes().to_vec(), 0o644));
        self
    }

    pub(crate) fn program(&mut self, path: &str) -> &mut Self {
        self.files.insert(path.to_owned(), (b"program".to_vec(), 0o755));
        self
    }

    pub(crate) fn symlink(&mut self, path: &str, target: &str) -> &mut Self {
        self.links.insert(path.to_owned(), target.to_owned());
        self
    }

    pub(crate) fn set_label(&mut self, path: &str, label: &str) -> &mut Self {
        self.labels.insert(path.to_owned(), label.to_owned());
        self
    }

    pub(crate) fn remove(&mut self, path: &str) -> &mut Self {
        assert!(self.files.remove(path).is_some() || self.links.remove(path).is_some(), "no `{path}`");
        self
    }

    pub(crate) fn append(&mut self, path: &str, content: &str) -> &mut Self {
        let (bytes, _) = self.files.get_mut(path).unwrap_or_else(|| panic!("no `{path}`"));
        bytes.extend_from_slice(content.as_bytes());
        self
    }

    /// A path without links, as a kernel would resolve it.
    fn resolve(&self, path: &str) -> String {
        let mut path = path.to_owned();
        for _ in 0..16 {
            let is_on_path = |link: &&String| path == **link || path.starts_with(&format!("{link}/"));
            let Some(link) = self.links.keys().find(is_on_path) else { return path };
            let target = &self.links[link];
            let parent = link.rsplit_once('/').map_or("", |(parent, _)| parent);
            let target = if target.starts_with('/') { target.clone() } else { join(parent, target) };
            path = format!("{target}{}", &path[link.len()..]);
        }
        path
    }
}

/// A relative path from a folder.
fn join(folder: &str, relative: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').filter(|part| !part.is_empty()).collect();
    for part in relative.split('/') {
        match part {
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    format!("/{}", parts.join("/"))
}

impl Tree for MapTree {
    fn entry(&self, path: &str) -> Option<Entry> {
        let path = self.resolve(path);
        if let Some((bytes, mode)) = self.files.get(&path) {
            return Some(Entry { kind: EntryKind::File, mode: *mode, size: bytes.len() as u64 });
        }
        let below = format!("{}/", path.trim_end_matches('/'));
        let is_folder = self.files.keys().chain(self.links.keys()).any(|name| name.starts_with(&below));
        is_folder.then_some(Entry { kind: EntryKind::Folder, mode: 0o755, size: 4096 })
    }

    fn link(&self, path: &str) -> Option<String> {
        self.links.get(path).cloned()
    }

    fn read(&self, path: &str) -> Option<Vec<u8>> {
        self.files.get(&self.resolve(path)).map(|(bytes, _)| bytes.clone())
    }

    fn names(&self, folder: &str) -> Vec<String> {
        let below = format!("{}/", self.resolve(folder).trim_end_matches('/'));
        let names = self.files.keys().chain(self.links.keys()).filter_map(|path| path.strip_prefix(&below));
        let mut names: Vec<String> = names.filter_map(|rest| rest.split('/').next()).map(str::to_owned).collect();
        names.sort();
        names.dedup();
        names
    }

    fn label(&self, path: &str) -> Option<String> {
        self.labels.get(path).cloned()
    }
}
