//! Headers: a table of tags with typed values. The numbers of tags and types are those of rpm's `rpmtag.h`.

use std::collections::BTreeMap;

/// The region tag of a package header.
pub(super) const IMMUTABLE: u32 = 63;
/// The region tag of a signature header.
pub(super) const SIGNATURES: u32 = 62;

/// A value of a header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Shorts(Vec<u16>),
    Numbers(Vec<u32>),
    Text(String),
    Texts(Vec<String>),
    /// A text with one translation.
    Translated(String),
}

impl Value {
    /// Type number, alignment, count and bytes.
    fn encode(&self) -> (u32, usize, usize, Vec<u8>) {
        let joined = |values: &[String]| values.iter().flat_map(|value| value.bytes().chain([0])).collect();
        match self {
            Self::Shorts(values) => (3, 2, values.len(), values.iter().flat_map(|one| one.to_be_bytes()).collect()),
            Self::Numbers(values) => (4, 4, values.len(), values.iter().flat_map(|one| one.to_be_bytes()).collect()),
            Self::Text(value) => (6, 1, 1, joined(std::slice::from_ref(value))),
            Self::Texts(values) => (8, 1, values.len(), joined(values)),
            Self::Translated(value) => (9, 1, 1, joined(std::slice::from_ref(value))),
        }
    }
}

/// Tags with their values, sorted as in the file.
#[derive(Clone, Debug, Default)]
pub(super) struct Header(BTreeMap<u32, Value>);

impl Header {
    pub(super) fn insert(&mut self, tag: u32, value: Value) {
        self.0.insert(tag, value);
    }

    /// The bytes, with a region that covers all tags: digests and signatures are only valid for tags in a region.
    pub(super) fn to_bytes(&self, region: u32) -> Vec<u8> {
        let entry =
            |tag: u32, kind: u32, offset: u32, count: u32| [tag, kind, offset, count].map(u32::to_be_bytes).concat();
        let (mut index, mut store) = (Vec::new(), Vec::new());
        for (tag, value) in &self.0 {
            let (kind, alignment, count, bytes) = value.encode();
            store.resize(store.len().next_multiple_of(alignment), 0);
            index.extend(entry(*tag, kind, super::number(store.len()), super::number(count)));
            store.extend(bytes);
        }
        let entries = super::number(self.0.len() + 1);
        // The region's data is another entry, with the size of the index as negative offset.
        let trailer = entry(region, 7, (entries * 16).wrapping_neg(), 16);
        let first = entry(region, 7, super::number(store.len()), 16);
        store.extend(trailer);
        let mut bytes = vec![0x8e, 0xad, 0xe8, 0x01, 0, 0, 0, 0];
        bytes.extend(entries.to_be_bytes());
        bytes.extend(super::number(store.len()).to_be_bytes());
        bytes.extend(first);
        bytes.extend(index);
        bytes.extend(store);
        bytes
    }
}
