//! qcow2, version 3, of the pieces of a disk. What no piece covers has no cluster.

use std::collections::BTreeMap;

use super::Piece;

const CLUSTER: u64 = 1 << 16;
/// Entries of a table in one cluster, and clusters counted in one cluster.
const TABLE: u64 = CLUSTER / 8;
const COUNTS: u64 = CLUSTER / 2;
/// The entry's cluster is used once.
const COPIED: u64 = 1 << 63;

/// The size of the file, and its pieces.
pub fn write<C: Clone>(disk: u64, pieces: &[Piece<C>]) -> (u64, Vec<Piece<C>>) {
    let layout = Layout::new(disk, pieces);
    let mut all = layout.tables();
    for piece in pieces {
        let host = layout.data + layout.order[&(piece.offset / CLUSTER)];
        all.push(Piece { offset: host * CLUSTER + piece.offset % CLUSTER, source: piece.source.clone() });
    }
    (layout.clusters * CLUSTER, all)
}

/// Which cluster holds what. Numbers are clusters.
struct Layout {
    disk: u64,
    /// The clusters of the disk that pieces touch, in order, with their position.
    order: BTreeMap<u64, u64>,
    first_table: u64,
    count_table: u64,
    count_blocks: u64,
    second_tables: u64,
    data: u64,
    clusters: u64,
}

impl Layout {
    fn new<C>(disk: u64, pieces: &[Piece<C>]) -> Self {
        let mut order = BTreeMap::new();
        for piece in pieces.iter().filter(|piece| piece.length() > 0) {
            let last = (piece.offset + piece.length() - 1) / CLUSTER;
            order.extend((piece.offset / CLUSTER..=last).map(|cluster| (cluster, 0)));
        }
        for (position, cluster) in order.values_mut().enumerate() {
            *cluster = position as u64;
        }
        let mut seconds: Vec<u64> = order.keys().map(|cluster| cluster / TABLE).collect();
        seconds.dedup();
        let firsts = disk.div_ceil(CLUSTER * TABLE).div_ceil(TABLE).max(1);
        let others = 1 + firsts + seconds.len() as u64 + order.len() as u64;
        // The counts count themselves.
        let (mut blocks, mut tables) = (1, 1);
        loop {
            let total = others + blocks + tables;
            let (more_blocks, more_tables) = (total.div_ceil(COUNTS), total.div_ceil(COUNTS).div_ceil(TABLE));
            if (more_blocks, more_tables) == (blocks, tables) {
                break;
            }
            (blocks, tables) = (more_blocks, more_tables);
        }
        let first_table = 1;
        let count_table = first_table + firsts;
        let count_blocks = count_table + tables;
        let second_tables = count_blocks + blocks;
        let data = second_tables + seconds.len() as u64;
        let clusters = data + order.len() as u64;
        Self { disk, order, first_table, count_table, count_blocks, second_tables, data, clusters }
    }

    fn tables<C>(&self) -> Vec<Piece<C>> {
        let mut second: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        for (cluster, position) in &self.order {
            let table = second.entry(cluster / TABLE).or_insert_with(|| vec![0; TABLE as usize]);
            table[(cluster % TABLE) as usize] = ((self.data + position) * CLUSTER) | COPIED;
        }
        let mut first = vec![0; self.first_entries() as usize];
        for (position, number) in second.keys().enumerate() {
            first[*number as usize] = ((self.second_tables + position as u64) * CLUSTER) | COPIED;
        }
        let counts = (0..self.clusters).flat_map(|_| 1_u16.to_be_bytes()).collect();
        let blocks: Vec<u64> = (self.count_blocks..self.second_tables).map(|block| block * CLUSTER).collect();
        let at = |cluster: u64, bytes: Vec<u8>| Piece::bytes(cluster * CLUSTER, bytes);
        let mut pieces = vec![at(0, self.header()), at(self.first_table, big_endian(&first))];
        pieces.push(at(self.count_table, big_endian(&blocks)));
        pieces.push(at(self.count_blocks, counts));
        let tables = second.values().enumerate();
        pieces.extend(tables.map(|(position, table)| at(self.second_tables + position as u64, big_endian(table))));
        pieces
    }

    fn first_entries(&self) -> u64 {
        self.disk.div_ceil(CLUSTER * TABLE)
    }

    fn header(&self) -> Vec<u8> {
        let mut header = vec![0; 112];
        let mut word = |offset: usize, value: u32| header[offset..offset + 4].copy_from_slice(&value.to_be_bytes());
        word(0, 0x5146_49fb);
        word(4, 3);
        // Clusters of 2^16 bytes, counts of 2^4 bits, and the length of the header.
        word(20, 16);
        word(36, self.first_entries() as u32);
        word(56, (self.count_blocks - self.count_table) as u32);
        word(96, 4);
        word(100, 104);
        let mut long = |offset: usize, value: u64| header[offset..offset + 8].copy_from_slice(&value.to_be_bytes());
        long(24, self.disk);
        long(40, self.first_table * CLUSTER);
        long(48, self.count_table * CLUSTER);
        header
    }
}

fn big_endian(table: &[u64]) -> Vec<u8> {
    table.iter().flat_map(|entry| entry.to_be_bytes()).collect()
}
