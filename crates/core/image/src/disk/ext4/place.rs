//! Which inode and which blocks each file has.

use std::collections::BTreeMap;
use std::ops::Range;

use super::directory::{self, Name};
use super::extents::Extents;
use super::geometry::{BLOCK, GROUP, Geometry, INODES_PER_BLOCK, runs};
use super::inode::{LONGEST_SHORT_LINK, types};
use super::{Error, FIRST_INODE, Options, ROOT, xattr};
use crate::disk::tree::{Entry, Kind, Tree, name, parent};

/// Blocks and inodes for the files of a region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Need {
    pub blocks: u64,
    pub inodes: u32,
}

/// The needs of each region's files, from region 0 on.
pub fn needs<C>(tree: &Tree<C>) -> Vec<Need> {
    let mut needs = vec![Need { blocks: directory::lost_and_found(), inodes: 0 }];
    let children = children(tree);
    for (path, entry) in tree.entries() {
        if needs.len() <= entry.region {
            needs.resize(entry.region + 1, Need::default());
        }
        let (data, need) = (data_blocks(&children, path, entry), &mut needs[entry.region]);
        // Only a file that is larger than a group can have more than four extents.
        need.blocks += data + u64::from(data > GROUP) + u64::from(needs_attribute_block(entry));
        need.inodes += u32::from(!matches!(entry.kind, Kind::Link(_)));
    }
    needs
}

/// The place of a file.
#[derive(Clone, Debug, Default)]
pub(super) struct Placed {
    pub(super) inode: u32,
    pub(super) links: u16,
    pub(super) runs: Vec<Range<u64>>,
    pub(super) extent_blocks: Vec<u64>,
    pub(super) attribute_block: Option<u64>,
}

impl Placed {
    /// All its blocks.
    pub(super) fn blocks(&self) -> u64 {
        let data: u64 = self.runs.iter().map(|run| run.end - run.start).sum();
        data + self.extent_blocks.len() as u64 + u64::from(self.attribute_block.is_some())
    }
}

/// The folder for what a repair finds.
pub(super) const LOST_AND_FOUND: &str = "lost+found";

type Children<'t> = BTreeMap<&'t str, Vec<&'t str>>;

/// The place of everything.
pub(super) struct Placement<'t> {
    pub(super) files: BTreeMap<&'t str, Placed>,
    pub(super) lost_and_found: Vec<Range<u64>>,
    children: Children<'t>,
}

/// The free part of a region.
struct Free<'g> {
    fixed: &'g [u64],
    region: usize,
    next_block: u64,
    blocks: u64,
    taken: u64,
    next_inode: u32,
    inodes: u32,
    last_inode: u32,
}

impl Free<'_> {
    fn take(&mut self, blocks: u64) -> Vec<Range<u64>> {
        let taken = runs(self.fixed, self.next_block, blocks);
        self.next_block = taken.last().map_or(self.next_block, |run| run.end);
        self.taken += blocks;
        taken
    }

    fn take_one(&mut self) -> u64 {
        self.take(1)[0].start
    }

    fn check(&self) -> Result<(), Error> {
        let full = |what, need: u64, room: u64| {
            if need > room { Err(Error::Full { region: self.region, what, need, room }) } else { Ok(()) }
        };
        full("blocks", self.taken, self.blocks)?;
        full("inodes", u64::from(self.next_inode - (self.last_inode - self.inodes)), u64::from(self.inodes))
    }
}

impl<'t> Placement<'t> {
    pub(super) fn new<C>(tree: &'t Tree<C>, geometry: &Geometry, options: &Options) -> Result<Self, Error> {
        let mut regions = free_regions(geometry, options)?;
        let mut all = Self { files: BTreeMap::new(), lost_and_found: Vec::new(), children: children(tree) };
        for (path, entry) in tree.entries() {
            let no_region = || Error::NoRegion { path: path.clone(), region: entry.region };
            let free = regions.get_mut(entry.region).ok_or_else(no_region)?;
            if path.is_empty() {
                all.lost_and_found = free.take(directory::lost_and_found());
            }
            if !matches!(entry.kind, Kind::Link(_)) {
                let placed = place(&all.children, path, entry, free)?;
                all.files.insert(path, placed);
            }
        }
        regions.iter().try_for_each(Free::check)?;
        for entry in tree.entries().values() {
            if let Kind::Link(target) = &entry.kind {
                all.files.get_mut(target.as_str()).expect("a tree has no other links").links += 1;
            }
        }
        Ok(all)
    }

    /// The names in a folder, with their inodes.
    pub(super) fn names<C>(&self, tree: &'t Tree<C>, folder: &str) -> Vec<Name<'t>> {
        let lost = folder.is_empty().then_some(Name { text: LOST_AND_FOUND, inode: FIRST_INODE, kind: 2 });
        let paths = self.children.get(folder).into_iter().flatten();
        let names = paths.map(|path| {
            let entry = &tree.entries()[*path];
            let (real, kind) = match &entry.kind {
                Kind::Link(target) => (target.as_str(), types(&tree.entries()[target].kind).1),
                kind => (*path, types(kind).1),
            };
            Name { text: name(path), inode: self.files[real].inode, kind }
        });
        lost.into_iter().chain(names).collect()
    }

    /// The inode of the folder that contains a path.
    pub(super) fn parent(&self, path: &str) -> u32 {
        self.files[parent(path)].inode
    }
}

fn free_regions<'g>(geometry: &'g Geometry, options: &Options) -> Result<Vec<Free<'g>>, Error> {
    // The first inodes have fixed meanings.
    let (mut block, mut inode) = (geometry.first_free, INODES_PER_BLOCK + 1);
    let mut regions = Vec::new();
    for (number, region) in options.regions.iter().enumerate() {
        let inodes = region.inodes.next_multiple_of(INODES_PER_BLOCK);
        regions.push(Free {
            fixed: &geometry.fixed,
            region: number,
            next_block: block,
            blocks: region.blocks,
            taken: 0,
            next_inode: inode,
            inodes,
            last_inode: inode + inodes,
        });
        block = runs(&geometry.fixed, block, region.blocks).last().map_or(block, |run| run.end);
        inode += inodes;
    }
    if block > geometry.blocks || inode > geometry.inodes() + 1 {
        let end = (block * BLOCK).max(u64::from(inode).div_ceil(8192) * GROUP * BLOCK);
        return Err(Error::TooSmall { end, size: options.size });
    }
    Ok(regions)
}

fn place<C>(children: &Children<'_>, path: &str, entry: &Entry<C>, free: &mut Free<'_>) -> Result<Placed, Error> {
    let mut placed = Placed { inode: ROOT, links: 1, ..Placed::default() };
    if !path.is_empty() {
        placed.inode = free.next_inode;
        free.next_inode += 1;
    }
    if needs_attribute_block(entry) {
        if !xattr::Attributes::new(&entry.attributes.extended).fits_block() {
            return Err(Error::Attributes(path.to_owned()));
        }
        placed.attribute_block = Some(free.take_one());
    }
    placed.runs = free.take(data_blocks(children, path, entry));
    let extents = Extents::new(&placed.runs);
    if !extents.fit() {
        return Err(Error::Fragments(path.to_owned()));
    }
    placed.extent_blocks = (0..extents.blocks()).map(|_| free.take_one()).collect();
    Ok(placed)
}

fn children<C>(tree: &Tree<C>) -> Children<'_> {
    let mut children = Children::new();
    for path in tree.entries().keys().filter(|path| !path.is_empty()) {
        children.entry(parent(path)).or_default().push(path);
    }
    children
}

fn needs_attribute_block<C>(entry: &Entry<C>) -> bool {
    !matches!(entry.kind, Kind::Link(_)) && xattr::Attributes::new(&entry.attributes.extended).needs_block()
}

fn data_blocks<C>(children: &Children<'_>, path: &str, entry: &Entry<C>) -> u64 {
    match &entry.kind {
        Kind::Directory => {
            let lost = path.is_empty().then_some(LOST_AND_FOUND);
            let names = children.get(path).into_iter().flatten().map(|child| name(child));
            directory::blocks(lost.into_iter().chain(names))
        }
        Kind::File(content) => content.size.div_ceil(BLOCK),
        Kind::Symlink(target) => u64::from(target.len() > LONGEST_SHORT_LINK),
        Kind::Link(_) | Kind::CharacterDevice(_) | Kind::BlockDevice(_) | Kind::Fifo => 0,
    }
}
