//! A folder per generation, and one link that says which holds.

use std::collections::BTreeSet;

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
    /// Those of a root.
    pub fn new(root: &Root) -> Self {
        Self { root: root.clone() }
    }

    /// The folder of a generation.
    pub fn folder(name: &str) -> String {
        format!("{GENERATIONS}/{name}")
    }

    /// The whole ones, oldest first: by the number that a name begins with.
    pub fn list(&self) -> Result<Vec<String>, Error> {
        let mut names = self.root.names(GENERATIONS)?;
        names.retain(|name| !name.starts_with('.'));
        Ok(by_age(names))
    }

    /// The one that the link names, whether or not its folder is there.
    pub fn current(&self) -> Result<Option<String>, Error> {
        let target = self.root.read_link(CURRENT)?;
        Ok(target.and_then(|target| target.rsplit('/').next().map(str::to_owned)).filter(|name| !name.is_empty()))
    }

    /// Whether a generation's folder holds exactly these files: nothing else, and nothing otherwise, but for what others write anew.
    pub fn holds(&self, name: &str, files: &[DesiredFile]) -> Result<bool, Error> {
        let folder = Self::folder(name);
        let files = inside(files, &folder);
        let wanted: BTreeSet<&str> = files.iter().map(|file| file.path.as_str()).collect();
        let existing = self.files(&folder)?;
        let differing = self.root.differing(&files)?;
        Ok(existing.iter().map(String::as_str).collect::<BTreeSet<_>>() == wanted
            && differing.iter().all(|file| matches!(file.content, FileContent::Seed(_))))
    }

    /// Writes a generation's folder, whole or not at all; one of the same name is replaced in one step. Paths are inside the folder.
    /// Nothing is written when the folder holds just that. Says whether anything was.
    pub fn write(&self, name: &str, files: &[DesiredFile], durability: Durability) -> Result<bool, Error> {
        let folder = Self::folder(name);
        split(&folder)?;
        let there = self.root.kind(&folder)?.is_some();
        if there && self.holds(name, files)? {
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
        // With another of that name the two change places, so that there is no moment without one.
        let flags = if there { RenameFlags::EXCHANGE } else { RenameFlags::NOREPLACE };
        self.root.ops.act(Op::Rename, "put in place", &folder, || {
            rustix::fs::renameat_with(&parent, temporary(name), &parent, name, flags)
        })?;
        folders.sync(durability, |path| !is_inside(path))?;
        if there {
            self.root.remove_tree(&building)?;
        }
        Ok(true)
    }

    /// Puts a generation in force.
    pub fn switch_to(&self, name: &str, durability: Durability) -> Result<(), Error> {
        let relative = GENERATIONS.rsplit('/').next().unwrap_or(GENERATIONS);
        self.root.replace_link(CURRENT, &format!("{relative}/{name}"), durability)
    }

    /// Takes the oldest away until `keep` are left, and what a writer left that was killed. Never one of `spared`, nor the one in force.
    /// Says which went.
    pub fn prune(&self, keep: usize, spared: &[&str]) -> Result<Vec<String>, Error> {
        let (left, all): (Vec<String>, Vec<String>) =
            self.root.names(GENERATIONS)?.into_iter().partition(|name| name.starts_with('.'));
        for name in &left {
            self.root.remove_tree(&Self::folder(name))?;
        }
        let all = by_age(all);
        let current = self.current()?;
        let excess = all.len().saturating_sub(keep);
        let spare = |name: &String| spared.contains(&name.as_str()) || current.as_ref() == Some(name);
        let gone: Vec<String> = all.into_iter().filter(|name| !spare(name)).take(excess).collect();
        for name in &gone {
            self.root.remove_tree(&Self::folder(name))?;
        }
        Ok(gone)
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

    /// Every path below a folder that is no folder.
    fn files(&self, folder: &str) -> Result<Vec<String>, Error> {
        let mut all = Vec::new();
        for name in self.root.names(folder)? {
            let path = format!("{folder}/{name}");
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

/// The number that a name begins with; names without one are oldest.
fn number(name: &str) -> Option<u64> {
    let digits = name.len() - name.trim_start_matches(|character: char| character.is_ascii_digit()).len();
    name[..digits].parse().ok()
}
