//! A writer of ext4 file systems that decides where everything is. Same tree, same options: same bytes. Each region of the tree has its own
//! range of blocks and of inodes, so that a change in one region leaves the blocks of the others where they are.
//!
//! Features: journal, extents, checksums, extended attributes, flexible groups. It can grow, since descriptors are next to
//! their groups (`meta_bg`). Folders are not indexed; the kernel indexes one when it grows.

mod bytes;
mod checksum;
mod directory;
mod extents;
mod geometry;
mod inode;
mod place;
mod superblock;
pub(in crate::disk) mod xattr;

use std::collections::BTreeMap;

pub use geometry::BLOCK;
pub use place::{Need, needs};

use super::{Attributes, Kind, Piece, Source, Tree};
use checksum::crc32c;
use extents::Extents;
use geometry::{Geometry, INODES_PER_GROUP, TABLE_BLOCKS, described_in, descriptors_in, has_superblock};
use inode::{Body, Inode, LONGEST_SHORT_LINK};
use place::{Placed, Placement};
use superblock::{Bits, Groups, Used, journal_header};

const ROOT: u32 = 2;
const JOURNAL_INODE: u32 = 8;
/// The first one that is not reserved, of `lost+found`.
const FIRST_INODE: u32 = 11;

/// Room for a part of the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    pub blocks: u64,
    pub inodes: u32,
}

/// Size, identity and regions of a file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Bytes.
    pub size: u64,
    pub uuid: [u8; 16],
    /// The seed for hashes of names.
    pub hash_seed: [u8; 16],
    /// At most 16 bytes.
    pub label: String,
    /// Seconds since 1970.
    pub created: u32,
    /// The regions, one after the other. Entries name them by their number.
    pub regions: Vec<Region>,
}

/// Why a file system cannot be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error(
        "a file system of {0} bytes is not possible: the size must be a multiple of 4096, and large enough for its tables"
    )]
    Size(u64),
    #[error("the label `{0}` has more than 16 bytes")]
    Label(String),
    #[error("`lost+found` belongs to the file system: remove it from the tree")]
    LostAndFound,
    #[error("`{path}` belongs to region {region}, which does not exist")]
    NoRegion { path: String, region: usize },
    #[error("region {region} has room for {room} {what}, but its files need {need}")]
    Full { region: usize, what: &'static str, need: u64, room: u64 },
    #[error("the regions end at byte {end}, behind the end of the file system at {size}")]
    TooSmall { end: u64, size: u64 },
    #[error("`{0}`: its extended attributes do not fit into one block")]
    Attributes(String),
    #[error("`{0}` has too many parts")]
    Fragments(String),
}

/// A file system with these files.
pub fn write<C: Clone>(tree: &Tree<C>, options: &Options) -> Result<Vec<Piece<C>>, Error> {
    if options.label.len() > 16 {
        return Err(Error::Label(options.label.clone()));
    }
    if tree.entries().contains_key(place::LOST_AND_FOUND) {
        return Err(Error::LostAndFound);
    }
    let blocks = options.size / BLOCK;
    let geometry =
        Geometry::new(blocks).filter(|_| options.size.is_multiple_of(BLOCK)).ok_or(Error::Size(options.size))?;
    let placement = Placement::new(tree, &geometry, options)?;
    let mut writer = Writer {
        seed: crc32c(!0, &options.uuid),
        used: Used {
            blocks: Bits::new(blocks),
            inodes: Bits::new(u64::from(geometry.inodes())),
            folders: vec![0; geometry.groups() as usize],
        },
        tables: BTreeMap::new(),
        pieces: Vec::new(),
        geometry: &geometry,
        options,
    };
    for (path, placed) in &placement.files {
        writer.file(tree, &placement, path, placed);
    }
    writer.lost_and_found(&placement);
    let journal = writer.journal();
    writer.finish(&journal);
    let mut pieces = writer.pieces;
    pieces.sort_by_key(|piece| piece.offset);
    Ok(pieces)
}

/// Collects the pieces.
struct Writer<'a, C> {
    /// Of all checksums.
    seed: u32,
    used: Used,
    /// Blocks of inode tables.
    tables: BTreeMap<u64, Vec<u8>>,
    pieces: Vec<Piece<C>>,
    geometry: &'a Geometry,
    options: &'a Options,
}

impl<C: Clone> Writer<'_, C> {
    fn file<'t>(&mut self, tree: &'t Tree<C>, placement: &Placement<'t>, path: &str, placed: &Placed) {
        let entry = &tree.entries()[path];
        let seed = inode::seed(self.seed, placed.inode);
        let extents = Extents::new(&placed.runs);
        let mut body = Body::Extents(extents.in_inode(&placed.extent_blocks));
        let (mut links, mut size) = (placed.links, placed.runs.iter().map(|run| (run.end - run.start) * BLOCK).sum());
        match &entry.kind {
            Kind::Link(_) => return,
            Kind::Directory => {
                let names = placement.names(tree, path);
                links = 2 + names.iter().filter(|name| name.kind == 2).count() as u16;
                let blocks = size / BLOCK;
                self.put(&placed.runs, &directory::content(placed.inode, placement.parent(path), &names, blocks, seed));
            }
            Kind::File(content) => {
                size = content.size;
                self.put_content(placed, content.size, &content.id);
            }
            Kind::Symlink(target) => {
                size = target.len() as u64;
                if target.len() <= LONGEST_SHORT_LINK {
                    body = Body::ShortLink(target.clone());
                } else {
                    self.put(&placed.runs, target);
                }
            }
            Kind::CharacterDevice(device) | Kind::BlockDevice(device) => body = Body::Device(*device),
            Kind::Fifo => body = Body::Nothing,
        }
        for (block, bytes) in placed.extent_blocks.iter().zip(extents.in_blocks(seed)) {
            self.put_block(*block, bytes);
        }
        if let Some(block) = placed.attribute_block {
            let attributes = xattr::Attributes::new(&entry.attributes.extended);
            self.put_block(block, attributes.block(block, self.seed));
        }
        self.put_inode(&Inode {
            number: placed.inode,
            file_type: inode::types(&entry.kind).0,
            attributes: &entry.attributes,
            links,
            size,
            blocks: placed.blocks(),
            body,
            attribute_block: placed.attribute_block.unwrap_or(0),
        });
    }

    fn lost_and_found(&mut self, placement: &Placement<'_>) {
        let runs = &placement.lost_and_found;
        let blocks: u64 = runs.iter().map(|run| run.end - run.start).sum();
        let content = directory::content(FIRST_INODE, ROOT, &[], blocks, inode::seed(self.seed, FIRST_INODE));
        self.put(runs, &content);
        self.put_inode(&Inode {
            number: FIRST_INODE,
            file_type: 0o040_000,
            attributes: &Attributes { mode: 0o700, modified: self.options.created, ..Attributes::default() },
            links: 2,
            size: blocks * BLOCK,
            blocks,
            body: Body::Extents(Extents::new(runs).in_inode(&[])),
            attribute_block: 0,
        });
    }

    fn journal(&mut self) -> [u8; 60] {
        let runs = self.geometry.journal.clone();
        let blocks = runs.iter().map(|run| run.end - run.start).sum();
        let extents = Extents::new(&runs).in_inode(&[]);
        self.put(&runs, &journal_header(blocks, self.options.uuid));
        self.put_inode(&Inode {
            number: JOURNAL_INODE,
            file_type: 0o100_000,
            attributes: &Attributes { mode: 0o600, modified: self.options.created, ..Attributes::default() },
            links: 1,
            size: blocks * BLOCK,
            blocks,
            body: Body::Extents(extents),
            attribute_block: 0,
        });
        extents
    }

    /// Inode tables, bitmaps, descriptors and superblocks.
    fn finish(&mut self, journal: &[u8; 60]) {
        // Reserved inodes.
        (1..FIRST_INODE).for_each(|number| self.used.inodes.set(u64::from(number - 1)));
        let geometry = self.geometry;
        geometry.fixed.iter().for_each(|block| self.used.blocks.set(*block));
        let bitmaps = geometry.block_bitmaps.iter().chain(&geometry.inode_bitmaps);
        bitmaps.for_each(|block| self.used.blocks.set(*block));
        geometry
            .inode_tables
            .iter()
            .flat_map(|block| *block..block + TABLE_BLOCKS)
            .for_each(|block| self.used.blocks.set(block));
        let groups = Groups::new(geometry, &self.used, self.seed);
        let at = |block: u64, bytes: Vec<u8>| Piece::bytes(block * BLOCK, bytes);
        self.pieces.extend(std::mem::take(&mut self.tables).into_iter().map(|(block, bytes)| at(block, bytes)));
        for group in 0..geometry.groups() {
            if has_superblock(group) {
                let bytes = groups.superblock(group, geometry, self.options, journal);
                // The first kilobyte of a disk is not the file system's.
                let offset = if group == 0 { 1024 } else { group * geometry::GROUP * BLOCK };
                self.pieces.push(Piece::bytes(offset, bytes));
            }
            if let Some(block) = descriptors_in(group) {
                let described = described_in(group, geometry.groups());
                let bytes = groups.descriptors[described.start as usize..described.end as usize].concat();
                self.pieces.push(at(block, bytes));
            }
        }
        self.pieces.extend(groups.bitmaps.into_iter().map(|(block, bytes)| at(block, bytes)));
    }

    fn put_inode(&mut self, inode: &Inode<'_>) {
        let (block, offset) = self.geometry.inode(inode.number);
        let table = self.tables.entry(block).or_insert_with(|| vec![0; BLOCK as usize]);
        let bytes = inode.bytes(self.seed);
        table[offset..offset + bytes.len()].copy_from_slice(&bytes);
        self.used.inodes.set(u64::from(inode.number - 1));
        if inode.file_type == 0o040_000 {
            self.used.folders[((inode.number - 1) / INODES_PER_GROUP) as usize] += 1;
        }
    }

    fn put_block(&mut self, block: u64, bytes: Vec<u8>) {
        self.used.blocks.set(block);
        self.pieces.push(Piece::bytes(block * BLOCK, bytes));
    }

    /// Puts bytes into runs of blocks, which may be longer.
    fn put(&mut self, runs: &[std::ops::Range<u64>], bytes: &[u8]) {
        let mut rest = bytes;
        for run in runs {
            run.clone().for_each(|block| self.used.blocks.set(block));
            let (here, later) = rest.split_at(rest.len().min(((run.end - run.start) * BLOCK) as usize));
            if !here.is_empty() {
                self.pieces.push(Piece::bytes(run.start * BLOCK, here.to_vec()));
            }
            rest = later;
        }
    }

    fn put_content(&mut self, placed: &Placed, size: u64, content: &C) {
        let mut from = 0;
        for run in &placed.runs {
            run.clone().for_each(|block| self.used.blocks.set(block));
            let length = ((run.end - run.start) * BLOCK).min(size - from);
            let source = Source::Content { content: content.clone(), from, length };
            self.pieces.push(Piece { offset: run.start * BLOCK, source });
            from += length;
        }
    }
}
