//! ext4: e2fsck finds nothing, debugfs and the kernel read what the tree says.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::process::Command;

use kiln_image::disk::ext4::{BLOCK, Error, Options, Region, needs, write};
use kiln_image::disk::{Attributes, Device, Entry, Kind, Piece, Tree};
use proptest::prelude::*;

use crate::image::{Image, Seed, attributes, content, entry, file, folder, tree};

const MIB: u64 = 1 << 20;
const ZERO: [u8; BLOCK as usize] = [0; BLOCK as usize];

fn options(size: u64, regions: Vec<Region>) -> Options {
    Options {
        size,
        uuid: *b"kiln-test-system",
        hash_seed: *b"kiln-test-hashes",
        label: "kiln-root".to_owned(),
        created: 1_700_000_000,
        regions,
    }
}

/// One region that is as large as its files.
fn exact(tree: &Tree<Seed>) -> Vec<Region> {
    needs(tree).iter().map(|need| Region { blocks: need.blocks, inodes: need.inodes }).collect()
}

fn image(tree: &Tree<Seed>, size: u64) -> Image {
    Image::write(size, &write(tree, &options(size, exact(tree))).expect("a file system"))
}

fn owned(uid: u32, gid: u32, entry: Entry<Seed>) -> Entry<Seed> {
    Entry { attributes: Attributes { uid, gid, ..entry.attributes }, ..entry }
}

fn with(name: &str, value: &[u8], mut entry: Entry<Seed>) -> Entry<Seed> {
    entry.attributes.extended.insert(name.to_owned(), value.to_vec());
    entry
}

/// A file system with every kind of entry.
fn everything() -> Tree<Seed> {
    let mut entries: BTreeMap<String, Entry<Seed>> = BTreeMap::new();
    let mut add = |path: &str, entry| entries.insert(path.to_owned(), entry);
    add("etc", folder());
    add("etc/empty", file(0, 0));
    add("etc/small", file(1, 5));
    add("etc/block", file(2, BLOCK));
    add("etc/name with späces", file(3, BLOCK + 1));
    add("etc/same", entry(0, Kind::Link("etc/small".to_owned())));
    add("etc/short", entry(0o777, Kind::Symlink(b"small".to_vec())));
    add("etc/59", entry(0o777, Kind::Symlink(vec![b'a'; 59])));
    add("etc/60", entry(0o777, Kind::Symlink(vec![b'b'; 60])));
    add("etc/long", entry(0o777, Kind::Symlink(vec![b'c'; 4000])));
    add("dev", folder());
    add("dev/null", entry(0o666, Kind::CharacterDevice(Device { major: 1, minor: 3 })));
    add("dev/nvme", entry(0o660, Kind::BlockDevice(Device { major: 259, minor: 70_000 })));
    add("dev/fifo", entry(0o600, Kind::Fifo));
    add("dev/same", entry(0, Kind::Link("dev/null".to_owned())));
    add("tmp", entry(0o1777, Kind::Directory));
    add("home", owned(1000, 100_000, folder()));
    add("home/file", owned(70_000, 4_000_000_000, file(4, 300)));
    add("bin", folder());
    add(
        "bin/ping",
        with("security.capability", &[1, 0, 0, 2, 0, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], file(5, 9000)),
    );
    let label = with("security.selinux", b"system_u:object_r:bin_t:s0\0", file(6, 10));
    add("bin/labelled", with("user.mark", b"", label));
    add(
        "bin/block",
        with("user.long", &[7; 1500], with("security.selinux", b"system_u:object_r:etc_t:s0\0", file(7, 10))),
    );
    let acl = [
        &2_u32.to_le_bytes()[..],
        &acl_entry(1, 6, !0),
        &acl_entry(2, 4, 1000),
        &acl_entry(4, 4, !0),
        &acl_entry(16, 4, !0),
        &acl_entry(32, 0, !0),
    ];
    add("etc/acl", with("system.posix_acl_access", &acl.concat(), entry(0o640, file(8, 1).kind)));
    add("big", file(9, 150 * MIB + 17));
    tree(entries)
}

fn acl_entry(tag: u16, permissions: u16, id: u32) -> Vec<u8> {
    [&tag.to_le_bytes()[..], &permissions.to_le_bytes(), &id.to_le_bytes()].concat()
}

#[test]
fn every_kind_of_entry_is_written_and_e2fsck_finds_nothing() {
    let tree = everything();
    let image = image(&tree, 512 * MIB);
    image.check();
    let header = image.run("dumpe2fs", &["-h"]);
    assert!(header.contains("Filesystem volume name:   kiln-root"), "{header}");
    assert!(header.contains("Filesystem state:         clean"), "{header}");
}

/// Unmounts when the test ends.
struct Mount(std::path::PathBuf);

impl Drop for Mount {
    fn drop(&mut self) {
        Command::new("umount").arg(&self.0).status().expect("umount runs");
    }
}

fn mount(image: &Image) -> Mount {
    let folder = image.folder().join("mounted");
    fs::create_dir(&folder).expect("a folder");
    let status =
        Command::new("mount").args(["-o", "loop"]).arg(image.path()).arg(&folder).status().expect("mount runs");
    assert!(status.success());
    Mount(folder)
}

#[test]
fn kernel_reads_what_the_tree_says_and_writes_to_it() {
    let tree = everything();
    let image = image(&tree, 512 * MIB);
    let mount = mount(&image);
    for (path, entry) in tree.entries() {
        let full = mount.0.join(path);
        let found = fs::symlink_metadata(&full).unwrap_or_else(|error| panic!("{path}: {error}"));
        let Attributes { mode, uid, gid, modified, extended } = match &entry.kind {
            Kind::Link(target) => &tree.entries()[target].attributes,
            _ => &entry.attributes,
        };
        assert_eq!(found.mode() & 0o7777, u32::from(*mode), "{path}");
        assert_eq!((found.uid(), found.gid(), found.mtime()), (*uid, *gid, i64::from(*modified)), "{path}");
        match &entry.kind {
            Kind::Directory => assert!(found.is_dir(), "{path}"),
            Kind::File(expected) => {
                assert_eq!(found.len(), expected.size, "{path}");
                assert!(fs::read(&full).expect("a file") == content(expected.id, 0, expected.size), "{path}");
            }
            Kind::Symlink(target) => {
                assert_eq!(fs::read_link(&full).expect("a link").as_os_str().as_encoded_bytes(), target, "{path}");
            }
            Kind::Link(target) => {
                assert_eq!(found.ino(), fs::metadata(mount.0.join(target)).expect("a file").ino(), "{path}");
                assert_eq!(found.nlink(), 2, "{path}");
            }
            Kind::CharacterDevice(device) | Kind::BlockDevice(device) => {
                let kind = found.file_type();
                assert_eq!(kind.is_char_device(), matches!(entry.kind, Kind::CharacterDevice(_)), "{path}");
                let (major, minor) = (rustix::fs::major(found.rdev()), rustix::fs::minor(found.rdev()));
                assert_eq!(Device { major, minor }, *device, "{path}");
            }
            Kind::Fifo => assert!(found.file_type().is_fifo(), "{path}"),
        }
        for (name, value) in extended {
            let mut buffer = vec![0; 4096];
            let length = rustix::fs::lgetxattr(&full, name.as_str(), &mut buffer[..])
                .unwrap_or_else(|error| panic!("{path} {name}: {error}"));
            assert_eq!(&buffer[..length], value, "{path} {name}");
        }
    }
    // The bitmaps are right: new files overwrite nothing.
    fs::write(mount.0.join("new"), content(77, 0, 100 * MIB)).expect("written");
    for number in 0..3000 {
        fs::write(mount.0.join(format!("tmp/{number}")), "").expect("written");
    }
    drop(mount);
    image.check();
}

#[test]
fn file_system_grows_to_the_size_of_a_disk() {
    let tree = everything();
    let image = image(&tree, 512 * MIB);
    image.run("truncate", &["--size=20G"]);
    image.run("resize2fs", &[]);
    image.check();
    let header = image.run("dumpe2fs", &["-h"]);
    assert!(header.contains(&format!("Block count:              {}", 20 * 1024 * MIB / BLOCK)), "{header}");
}

/// The blocks that differ, of those that are not zero in both.
fn changed(before: &[Piece<Seed>], after: &[Piece<Seed>], size: u64) -> (usize, usize) {
    let (before, after) = (Image::write(size, before), Image::write(size, after));
    let read = |image: &Image| fs::read(image.path()).expect("an image");
    let (before, after) = (read(&before), read(&after));
    let blocks = before.chunks(BLOCK as usize).zip(after.chunks(BLOCK as usize));
    let used = blocks.filter(|(before, after)| *before != ZERO || *after != ZERO);
    let differs: Vec<bool> = used.map(|(before, after)| before != after).collect();
    (differs.iter().filter(|differs| **differs).count(), differs.len())
}

/// 20 regions with 40 files of a quarter of a megabyte or less each. Region 7 has a changed file.
fn twenty_regions(bytes_more: u64) -> Tree<Seed> {
    let mut entries = vec![("usr".to_owned(), folder())];
    for region in 0..20_u64 {
        for number in 0..40 {
            let size = (number * 7919 + region * 104_729) % (MIB / 4);
            let more = if (region, number) == (7, 3) { bytes_more } else { 0 };
            let seed = 1000 * region + number + more;
            entries
                .push((format!("usr/{number}-{region}"), Entry { region: region as usize, ..file(seed, size + more) }));
        }
    }
    tree(entries)
}

#[test]
fn changed_region_leaves_the_blocks_of_others_where_they_are() {
    let size = 256 * MIB;
    let (before, after) = (twenty_regions(0), twenty_regions(100_000));
    let regions = needs(&before)
        .into_iter()
        .map(|need| Region { blocks: need.blocks + need.blocks / 8 + 8, inodes: need.inodes + 16 });
    let options = options(size, regions.collect());
    let pieces = |tree| write(tree, &options).expect("a file system");
    let (changed, all) = changed(&pieces(&before), &pieces(&after), size);
    let own = needs(&after)[7].blocks as usize;
    assert!(changed > 25, "{changed} blocks of {all}");
    assert!(changed <= own + all / 100, "{changed} blocks of {all} differ, {own} of them in the region");
    Image::write(size, &pieces(&after)).check();
}

#[test]
fn what_does_not_fit_is_refused_with_the_place() {
    let small = tree([("file".to_owned(), file(1, 40 * BLOCK))]);
    let regions = |blocks, inodes| vec![Region { blocks, inodes }];
    let error = |size, regions| write(&small, &options(size, regions)).expect_err("refused");
    let full = error(64 * MIB, regions(44, 16));
    assert_eq!(full.to_string(), "region 0 has room for 44 blocks, but its files need 45");
    assert!(matches!(error(64 * MIB, regions(MIB, 16)), Error::TooSmall { .. }));
    assert!(matches!(error(64 * MIB, vec![]), Error::NoRegion { .. }));
    assert_eq!(error(64 * MIB + 1, regions(100, 16)), Error::Size(64 * MIB + 1));
    assert_eq!(error(MIB, regions(100, 16)), Error::Size(MIB));
    let lost = tree([("lost+found".to_owned(), folder())]);
    assert_eq!(write(&lost, &options(64 * MIB, regions(100, 16))), Err(Error::LostAndFound));
    let many = tree((0..40).map(|number| (format!("{number}"), file(number, 1))));
    let few = write(&many, &options(64 * MIB, regions(100, 16))).expect_err("refused");
    assert_eq!(few.to_string(), "region 0 has room for 16 inodes, but its files need 40");
}

/// A tree of folders with files, links and attributes, in two regions.
fn any_tree() -> impl Strategy<Value = Tree<Seed>> {
    let name = prop_oneof!["[a-z]{1,12}", "[a-zäöü. _-]{20,60}x", "[A-Z]{200,255}"];
    let one = (name, 0..8_u8, 0..40_000_u64, any::<u16>(), prop::collection::vec(any::<u8>(), 0..200), 0..2_usize);
    prop::collection::vec(one, 0..120).prop_map(|all| {
        let mut entries: BTreeMap<String, Entry<Seed>> = BTreeMap::new();
        let mut folders = vec![String::new()];
        let mut files: Vec<String> = Vec::new();
        for (name, kind, size, random, value, region) in all {
            let folder = &folders[usize::from(random) % folders.len()];
            let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
            if entries.contains_key(&path) || path == "lost+found" {
                continue;
            }
            let kind = match kind {
                0 | 1 => Kind::Directory,
                2 => Kind::Symlink(vec![b'x'; size as usize % 200 + 1]),
                3 if !files.is_empty() => Kind::Link(files[usize::from(random) % files.len()].clone()),
                _ => file(u64::from(random), size).kind,
            };
            let mut attributes = attributes(random & 0o7777);
            if value.len() > 20 && !matches!(kind, Kind::Symlink(_)) {
                attributes.extended.insert(format!("user.{}", value.len()), value);
            }
            match &kind {
                Kind::Directory => folders.push(path.clone()),
                Kind::File(_) => files.push(path.clone()),
                _ => {}
            }
            entries.insert(path, Entry { attributes, kind, region });
        }
        tree(entries)
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn e2fsck_accepts_any_tree_in_any_size(tree in any_tree(), size in 40..600_u64, spare in 0..100_u64) {
        let regions = exact(&tree).into_iter().map(|region| Region { blocks: region.blocks + spare, ..region }).collect();
        let size = if size % 128 == 0 { size + 1 } else { size } * MIB;
        let pieces = write(&tree, &options(size, regions)).expect("a file system");
        Image::write(size, &pieces).check();
    }
}
