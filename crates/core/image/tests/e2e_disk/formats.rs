//! Partition tables, FAT, VHD and qcow2, judged by sgdisk, fsck.fat, mtools and qemu-img.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use kiln_image::disk::gpt::{self, Guid, Partition};
use kiln_image::disk::{Content, Piece, ext4, fat, qcow2, vhd};
use test_deps::TestDep;

use crate::image::{Image, Seed, content, file, folder, tree};

const MIB: u64 = 1 << 20;
const ID: Guid = Guid::EFI_SYSTEM;

/// Runs a program with these arguments.
#[track_caller]
fn run(dependency: TestDep, arguments: &[&str], paths: &[&Path]) -> String {
    let output =
        Command::new(testkit::require(dependency)).args(arguments).args(paths).output().expect("the program runs");
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{arguments:?}: {text}");
    text
}

fn partition(name: &str, kind: Guid, start: u64, size: u64) -> Partition {
    Partition { kind, id: Guid::from_hash(*b"0123456789abcdef"), name: name.to_owned(), start, size, grows: kind != ID }
}

/// A disk with a boot loader and a root, which ends with zeros.
fn disk() -> (u64, Vec<Piece<Seed>>) {
    let (size, boot_size, root_size) = (256 * MIB, 48 * MIB, 200 * MIB);
    let mut root = partition("root", Guid::LINUX_ROOT_AMD64, 50 * MIB, root_size);
    root.id = Guid::from_hash(*b"fedcba9876543210");
    let table = gpt::write(size, Guid::from_hash([7; 16]), &[partition("boot", ID, MIB, boot_size), root]);
    let boot = fat::write(&boot_files(), &fat_options(boot_size)).expect("a file system");
    let tree = tree([("etc".to_owned(), folder()), ("etc/file".to_owned(), file(3, 3 * MIB))]);
    let regions = ext4::needs(&tree).into_iter().map(|need| ext4::Region { blocks: need.blocks, inodes: need.inodes });
    let options = ext4::Options {
        size: root_size,
        uuid: [1; 16],
        hash_seed: [2; 16],
        label: "root".to_owned(),
        created: 1_700_000_000,
        regions: regions.collect(),
    };
    let root = ext4::write(&tree, &options).expect("a file system");
    let mut all = table.expect("a table");
    all.extend(boot.into_iter().map(|piece| piece.moved_by(MIB)));
    all.extend(root.into_iter().map(|piece| piece.moved_by(50 * MIB)));
    all.sort_by_key(|piece| piece.offset);
    (size, all)
}

fn boot_files() -> BTreeMap<String, Content<Seed>> {
    let file = |id, size| Content { id, size };
    let many = (0..40).map(|number| (format!("LOADER/ENTRIES/E{number}.CNF"), file(number, number * 100)));
    let fixed = [("EFI/BOOT/BOOTX64.EFI".to_owned(), file(50, 20 * MIB + 5)), ("EMPTY".to_owned(), file(51, 0))];
    many.chain(fixed).collect()
}

fn fat_options(size: u64) -> fat::Options {
    let modified = fat::Modified::new(2026, 11, 18, (4, 30, 10));
    fat::Options { size, id: 0x1234_abcd, label: "KILN-BOOT".to_owned(), start: MIB, modified }
}

#[test]
fn sgdisk_finds_no_problem_and_reads_the_partitions() {
    let (size, pieces) = disk();
    let image = Image::write(size, &pieces);
    let text = run(TestDep::Sgdisk, &["--verify", "--print"], &[&image.path()]);
    assert!(text.contains("No problems found."), "{text}");
    for row in ["   1            2048          100351   48.0 MiB    EF00  boot", "8304  root"] {
        assert!(text.contains(row), "{text}");
    }
    let info = run(TestDep::Sgdisk, &["--info=2"], &[&image.path()]);
    assert!(info.contains("Attribute flags: 0800000000000000"), "{info}");
}

#[test]
fn table_that_does_not_fit_is_refused() {
    let table = |partitions: &[Partition]| gpt::write::<Seed>(64 * MIB, ID, partitions).map(|_| ());
    let overlapping = [partition("a", ID, MIB, 2 * MIB), partition("b", ID, 2 * MIB, MIB)];
    assert_eq!(table(&overlapping), Err(gpt::Error::Place("b".to_owned())));
    assert_eq!(table(&[partition("a", ID, MIB, 63 * MIB)]), Err(gpt::Error::Place("a".to_owned())));
    assert_eq!(table(&[partition("a", ID, 512, MIB)]), Err(gpt::Error::Place("a".to_owned())));
    let long = "n".repeat(37);
    assert_eq!(table(&[partition(&long, ID, MIB, MIB)]), Err(gpt::Error::Name(long)));
    assert_eq!(gpt::write::<Seed>(1000, ID, &[]), Err(gpt::Error::Disk(1000)));
}

#[test]
fn fsck_accepts_the_boot_partition_and_mtools_read_its_files() {
    for size in [34 * MIB, 48 * MIB, 512 * MIB] {
        let image = Image::write(size, &fat::write(&boot_files(), &fat_options(size)).expect("a file system"));
        let text = run(TestDep::FatCheck, &["-n", "-v"], &[&image.path()]);
        for word in ["differ", "Wrong", "wrong", "Dirty", "Reclaim"] {
            assert!(!text.contains(word), "{text}");
        }
        assert!(text.contains("32 bit entries"), "{text}");
        let out = image.folder().join("out");
        for (path, expected) in boot_files() {
            run(
                TestDep::Mtools,
                &["-n", "-o", "-i", &image.path().display().to_string(), &format!("::{path}")],
                &[&out],
            );
            assert!(std::fs::read(&out).expect("a file") == content(expected.id, 0, expected.size), "{path}");
        }
    }
    let error = |path: &str, size| {
        let files = BTreeMap::from([(path.to_owned(), Content { id: 1, size })]);
        fat::write(&files, &fat_options(34 * MIB)).expect_err("refused")
    };
    assert_eq!(error("lower", 1), fat::Error::Name("lower".to_owned()));
    assert_eq!(error("TOOLONGNAME/A", 1), fat::Error::Name("TOOLONGNAME/A".to_owned()));
    assert!(matches!(error("BIG", 40 * MIB), fat::Error::Full { .. }));
    assert_eq!(fat::write(&boot_files(), &fat_options(20 * MIB)), Err(fat::Error::Size(20 * MIB)));
}

#[test]
fn qemu_reads_the_same_disk_from_raw_vhd_and_qcow2() {
    let (size, pieces) = disk();
    let raw = Image::write(size, &pieces);
    let mut with_footer = pieces.clone();
    with_footer.push(vhd::footer(size, 1_700_000_000, [9; 16]));
    let vhd = Image::write(vhd::file_size(size), &with_footer);
    let (file_size, clusters) = qcow2::write(size, &pieces);
    let mut clusters = clusters;
    clusters.sort_by_key(|piece| piece.offset);
    let qcow2 = Image::write(file_size, &clusters);
    let compare = |format: &str, image: &Image| {
        let text = run(TestDep::QemuImg, &["compare", "-f", "raw", "-F", format], &[&raw.path(), &image.path()]);
        assert!(text.contains("Images are identical."), "{text}");
        let info = run(TestDep::QemuImg, &["info", "-f", format], &[&image.path()]);
        assert!(info.contains(&format!("({size} bytes)")), "{info}");
        // Back to raw, byte by byte.
        let back = image.folder().join("back");
        run(TestDep::QemuImg, &["convert", "-f", format, "-O", "raw"], &[&image.path(), &back]);
        assert!(std::fs::read(back).expect("a disk") == std::fs::read(raw.path()).expect("a disk"));
    };
    compare("vpc", &vhd);
    compare("qcow2", &qcow2);
    let check = run(TestDep::QemuImg, &["check", "-f", "qcow2"], &[&qcow2.path()]);
    assert!(check.contains("No errors were found on the image."), "{check}");
    assert!(file_size < 48 * MIB, "what no piece covers has no cluster: {file_size}");
}

#[test]
fn vhd_of_an_odd_size_is_a_whole_number_of_mib() {
    let size = 5 * MIB + 512;
    assert_eq!(vhd::file_size(size), 6 * MIB + 512);
    let image =
        Image::write(vhd::file_size(size), &[Piece::bytes(0, b"first".to_vec()), vhd::footer(size, 0, [0; 16])]);
    let info = run(TestDep::QemuImg, &["info", "-f", "vpc"], &[&image.path()]);
    assert!(info.contains(&format!("({} bytes)", 6 * MIB)), "{info}");
}
