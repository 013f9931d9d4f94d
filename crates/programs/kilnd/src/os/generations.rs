//! Generations: one folder each, and a link to the one in force.
//!
//! Write order: a generation is built in a hidden folder next to its final one, its files and folders are synced, and only then it is renamed into
//! place. So a folder with a final name is always complete. The link is replaced atomically after that, which puts the generation in force.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use kiln_node_plan::layout::{CURRENT, GENERATIONS};
use kiln_node_plan::{DesiredFile, FileContent};
use rustix::fs::RenameFlags;

use crate::os::error::Error;
use crate::os::ops::Op;
use crate::os::owners::Owners;
use crate::os::root::folders::Folders;
use crate::os::root::write::{Durability, temporary};
use crate::os::root::{Root, split};

/// The generations of a root.
#[derive(Clone, Debug)]
pub struct Generations {
    root: Root,
}

impl Generations {
    /// The generations below a root.
    pub fn new(root: &Root) -> Self {
        Self { root: root.clone() }
    }

    /// The folder of a generation.
    pub fn folder(name: &str) -> String {
        format!("{GENERATIONS}/{name}")
    }

    /// All complete generations, by number, lowest first.
    pub fn list(&self) -> Result<Vec<String>, Error> {
        let mut names = self.root.text_names(GENERATIONS)?;
        names.retain(|name| !name.starts_with('.'));
        Ok(by_age(names))
    }

    /// The generation that the link points at, whether or not its folder exists.
    pub fn current(&self) -> Result<Option<String>, Error> {
        let target = self.root.read_link(CURRENT)?;
        let name = target.as_deref().and_then(|target| target.file_name()?.to_str());
        Ok(name.map(str::to_owned))
    }

    /// Whether a generation's folder contains exactly these files. The content of files that other programs rewrite is not compared.
    pub fn contains(&self, name: &str, files: &[DesiredFile]) -> Result<bool, Error> {
        let folder = Self::folder(name);
        let files = inside(files, &folder);
        let wanted: BTreeSet<&Path> = files.iter().map(|file| Path::new(&file.path)).collect();
        let existing = self.files(Path::new(&folder))?;
        let differing = self.root.differing(&files)?;
        let existing: BTreeSet<_> = existing.iter().map(PathBuf::as_path).collect();
        Ok(existing == wanted && differing.iter().all(|file| matches!(file.content, FileContent::Seed(_))))
    }

    /// Writes a generation's folder atomically; an existing one with the same name is replaced. Paths are relative to the folder. Returns false
    /// if the folder was already up to date.
    pub fn write(&self, name: &str, files: &[DesiredFile], durability: Durability) -> Result<bool, Error> {
        let folder = Self::folder(name);
        split(&folder)?;
        let exists = self.root.kind(&folder)?.is_some();
        if exists && self.contains(name, files)? {
            return Ok(false);
        }
        let building = format!("{GENERATIONS}/{}", temporary(name));
        let is_inside = |path: &str| path.starts_with(&building);
        let mut folders = Folders::new(&self.root);
        let parent = folders.open(GENERATIONS)?;
        self.root.remove_tree(&building)?;
        let written = self.fill(&building, files, durability, &mut folders);
        if let Err(error) = written.and_then(|()| folders.sync(durability, is_inside)) {
            let _ = self.root.remove_tree(&building);
            return Err(error);
        }
        // An existing folder is exchanged, so that there is always one.
        let flags = if exists { RenameFlags::EXCHANGE } else { RenameFlags::NOREPLACE };
        self.root.ops.act(Op::Rename, "rename", &folder, || {
            rustix::fs::renameat_with(&parent, temporary(name), &parent, name, flags)
        })?;
        folders.sync(durability, |path| !is_inside(path))?;
        if exists {
            self.root.remove_tree(&building)?;
        }
        Ok(true)
    }

    /// Points the link at a generation.
    pub fn switch_to(&self, name: &str, durability: Durability) -> Result<(), Error> {
        let relative = GENERATIONS.rsplit('/').next().unwrap_or(GENERATIONS);
        self.root.replace_link(CURRENT, &format!("{relative}/{name}"), durability)
    }

    /// Deletes the oldest generations until `keep` are left, except those in `spared` and the one in force, and leftovers of killed processes.
    /// Returns the deleted ones.
    pub fn prune(&self, keep: usize, spared: &[&str]) -> Result<Vec<String>, Error> {
        let (leftovers, all): (Vec<String>, Vec<String>) =
            self.root.text_names(GENERATIONS)?.into_iter().partition(|name| name.starts_with('.'));
        for name in &leftovers {
            self.root.remove_tree(Self::folder(name))?;
        }
        let all = by_age(all);
        let current = self.current()?;
        let excess = all.len().saturating_sub(keep);
        let spare = |name: &String| spared.contains(&name.as_str()) || current.as_ref() == Some(name);
        let removed: Vec<String> = all.into_iter().filter(|name| !spare(name)).take(excess).collect();
        for name in &removed {
            self.root.remove_tree(Self::folder(name))?;
        }
        Ok(removed)
    }

    fn fill(
        &self,
        folder: &str,
        files: &[DesiredFile],
        durability: Durability,
        folders: &mut Folders<'_>,
    ) -> Result<(), Error> {
        folders.open(folder)?;
        let owners = Owners::new(&self.root);
        for file in inside(files, folder) {
            let (inner, name) = split(&file.path)?;
            let parent = folders.open(inner)?;
            let open = self.root.make(&parent, name, &file, &owners)?;
            if let (Durability::Now, Some(open)) = (durability, open) {
                self.root.ops.act(Op::Sync, "sync", &file.path, || rustix::fs::fsync(&open))?;
            }
        }
        Ok(())
    }

    /// All files below a folder.
    fn files(&self, folder: &Path) -> Result<Vec<PathBuf>, Error> {
        let mut all = Vec::new();
        for name in self.root.names(folder)? {
            let path = folder.join(name);
            if self.root.kind(&path)? == Some(crate::os::FileKind::Folder) {
                all.extend(self.files(&path)?);
            } else {
                all.push(path);
            }
        }
        Ok(all)
    }
}

/// The files of a generation with absolute paths.
fn inside(files: &[DesiredFile], folder: &str) -> Vec<DesiredFile> {
    files.iter().map(|file| DesiredFile { path: format!("{folder}/{}", file.path), ..file.clone() }).collect()
}

fn by_age(mut names: Vec<String>) -> Vec<String> {
    names.sort_by_cached_key(|name| (number(name), name.clone()));
    names
}

/// The number at the start of a name; names without one sort first.
fn number(name: &str) -> Option<u64> {
    let digits = name.len() - name.trim_start_matches(|character: char| character.is_ascii_digit()).len();
    name[..digits].parse().ok()
}
