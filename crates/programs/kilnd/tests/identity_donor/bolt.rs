//! Writes small Bolt databases in the format of containerd.

const PAGE: usize = 4096;

/// A value or a nested bucket.
enum Entry {
    Value(Vec<u8>),
    Bucket(Vec<(Vec<u8>, Entry)>),
}

/// The database of a snapshotter: snapshot ids with their kinds (2: active, of a container; 3: committed, of an image).
pub(crate) fn snapshots(all: &[(u64, u8)]) -> Vec<u8> {
    let entry = |(id, kind): &(u64, u8)| {
        let values = vec![
            (b"id".to_vec(), Entry::Value(varint(*id))),
            (b"kind".to_vec(), Entry::Value(vec![*kind])),
            (b"name".to_vec(), Entry::Value(b"k8s.io/1/x".to_vec())),
        ];
        (format!("k8s.io/{id}/key").into_bytes(), Entry::Bucket(values))
    };
    let snapshots = Entry::Bucket(all.iter().map(entry).collect());
    let parents = Entry::Bucket(vec![(b"p".to_vec(), Entry::Value(b"c".to_vec()))]);
    let version = vec![(b"parents".to_vec(), parents), (b"snapshots".to_vec(), snapshots)];
    database(&[(b"v1".to_vec(), Entry::Bucket(version))])
}

/// The metadata database with these images.
pub(crate) fn images(names: &[&str]) -> Vec<u8> {
    let mut names: Vec<&str> = names.to_vec();
    names.sort_unstable();
    let image = |name: &&str| {
        let target = Entry::Bucket(vec![(b"digest".to_vec(), Entry::Value(b"sha256:d".to_vec()))]);
        (name.as_bytes().to_vec(), Entry::Bucket(vec![(b"target".to_vec(), target)]))
    };
    let images = Entry::Bucket(names.iter().map(image).collect());
    let space = Entry::Bucket(vec![(b"images".to_vec(), images)]);
    let version = Entry::Bucket(vec![(b"k8s.io".to_vec(), space), (b"version".to_vec(), Entry::Value(vec![3]))]);
    database(&[(b"v1".to_vec(), version)])
}

fn database(root: &[(Vec<u8>, Entry)]) -> Vec<u8> {
    // Two meta pages, the free list, then the tree.
    let mut pages: Vec<Vec<u8>> = vec![Vec::new(); 3];
    let root = bucket(root, &mut pages);
    pages[2] = head(2, 0x10, 0);
    let count = pages.len() as u64;
    for copy in 0..2_u64 {
        let mut meta = Vec::new();
        meta.extend(0xED0C_DAED_u32.to_le_bytes());
        meta.extend(2_u32.to_le_bytes());
        meta.extend(u32::try_from(PAGE).expect("a size").to_le_bytes());
        meta.extend(0_u32.to_le_bytes());
        // The older meta page has a root that is not a tree, so a reader that chooses it finds nothing.
        for number in [if copy == 1 { root } else { 2 }, 0, 2, count, 5 + copy] {
            meta.extend(number.to_le_bytes());
        }
        let sum = meta
            .iter()
            .fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
        meta.extend(sum.to_le_bytes());
        let mut page = head(copy, 0x04, 0);
        page.extend(meta);
        pages[usize::try_from(copy).expect("a number")] = page;
    }
    pages
        .into_iter()
        .flat_map(|mut page| {
            page.resize(PAGE, 0);
            page
        })
        .collect()
}

/// Writes a bucket to new pages and returns the number of its root page. Several entries become two leaves below a branch.
fn bucket(entries: &[(Vec<u8>, Entry)], pages: &mut Vec<Vec<u8>>) -> u64 {
    if entries.len() > 1 {
        let (front, back) = entries.split_at(entries.len() / 2);
        let leaves = [front, back].map(|part| (part[0].0.clone(), leaf_page(part, pages)));
        let number = pages.len() as u64;
        let mut page = head(number, 0x01, 2);
        let mut data: Vec<u8> = Vec::new();
        for (index, (key, child)) in leaves.iter().enumerate() {
            let position = (2 - index) * 16 + data.len();
            page.extend(u32::try_from(position).expect("a position").to_le_bytes());
            page.extend(u32::try_from(key.len()).expect("a length").to_le_bytes());
            page.extend(child.to_le_bytes());
            data.extend(key);
        }
        page.extend(data);
        pages.push(page);
        return number;
    }
    leaf_page(entries, pages)
}

fn leaf_page(entries: &[(Vec<u8>, Entry)], pages: &mut Vec<Vec<u8>>) -> u64 {
    let body = leaf(0, entries, pages);
    let number = pages.len() as u64;
    let mut page = body;
    page[..8].copy_from_slice(&number.to_le_bytes());
    pages.push(page);
    number
}

fn leaf(number: u64, entries: &[(Vec<u8>, Entry)], pages: &mut Vec<Vec<u8>>) -> Vec<u8> {
    let values: Vec<(u32, &Vec<u8>, Vec<u8>)> = entries
        .iter()
        .map(|(key, entry)| match entry {
            Entry::Value(value) => (0, key, value.clone()),
            Entry::Bucket(inner) => (1, key, nested(inner, pages)),
        })
        .collect();
    let mut page = head(number, 0x02, values.len());
    let mut data: Vec<u8> = Vec::new();
    for (index, (flags, key, value)) in values.iter().enumerate() {
        let position = (values.len() - index) * 16 + data.len();
        for field in [*flags as usize, position, key.len(), value.len()] {
            page.extend(u32::try_from(field).expect("32 bits").to_le_bytes());
        }
        data.extend(key.iter());
        data.extend(value);
    }
    page.extend(data);
    page
}

/// The value of a nested bucket. A bucket without sub-buckets is stored inline.
fn nested(inner: &[(Vec<u8>, Entry)], pages: &mut Vec<Vec<u8>>) -> Vec<u8> {
    let plain = inner.iter().all(|(_, entry)| matches!(entry, Entry::Value(_)));
    let root = if plain { 0 } else { bucket(inner, pages) };
    let mut value = [root.to_le_bytes(), 0_u64.to_le_bytes()].concat();
    if plain {
        value.extend(leaf(0, inner, pages));
    }
    value
}

fn head(number: u64, flags: u16, count: usize) -> Vec<u8> {
    let mut page = number.to_le_bytes().to_vec();
    page.extend(flags.to_le_bytes());
    page.extend(u16::try_from(count).expect("a count").to_le_bytes());
    page.extend(0_u32.to_le_bytes());
    page
}

fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push(u8::try_from(number & 0x7f).expect("seven bits") | 0x80);
        number >>= 7;
    }
    bytes.push(u8::try_from(number).expect("seven bits"));
    bytes
}
