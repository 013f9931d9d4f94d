//! The disk of a variant: the one root, what the variant adds, as a file system in a file. No loop device is needed.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::boot::Disk;
use crate::expected::Configured;
use crate::tree::{self, Item};
use crate::variant::DOCUMENT;
use crate::world::{Tools, finished, folder};
use crate::{Error, Variant, medium};

/// The size of the file system; the file is as large as what is in it.
const SIZE: &str = "3G";

/// The same in bytes.
const SIZE_BYTES: u64 = 3 << 30;
/// Where a partition begins, in sectors: where every tool puts the first.
const START: u64 = 2048;
const SECTOR: u64 = 512;

/// Makes a disk with a table of one partition, for a root that is to grow: what has no table is as large as its disk already.
fn partition(file: &Path) -> Result<(), Error> {
    let number = |number: u64| u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes();
    let mut table = vec![0; 512];
    // Linux, addressed by sectors.
    table[450] = 0x83;
    table[454..458].copy_from_slice(&number(START));
    table[458..462].copy_from_slice(&number(SIZE_BYTES / SECTOR));
    table[510..].copy_from_slice(&[0x55, 0xaa]);
    let made = fs::write(file, table).and_then(|()| fs::File::options().write(true).open(file));
    made.and_then(|disk| disk.set_len(SIZE_BYTES + START * SECTOR)).map_err(Error::file(file))
}

/// What makes disks.
pub(crate) struct Bench<'a> {
    pub(crate) tools: &'a Tools,
    /// The Debian that every machine starts from.
    pub(crate) base: &'a Path,
    /// The folder of everything that is made; `/mnt` for the tools.
    pub(crate) work: &'a Path,
    pub(crate) kilnd: &'a Path,
    pub(crate) units: &'a Path,
}

impl Bench<'_> {
    /// What a node is to have in the end: kilnd says it once, on a copy of the root, and every variant is held to it.
    pub(crate) fn expected(&self) -> Result<Configured, Error> {
        let nothing = Configured::default();
        let merged = self.merged("expected", &Variant::Kilnd.items(self.kilnd, self.units, &nothing)?)?;
        let document = self.work.join("document.json");
        fs::write(&document, DOCUMENT).map_err(Error::file(&document))?;
        finished(Command::new(self.kilnd).arg("apply").arg("--config").arg(&document).arg("--root").arg(&merged))?;
        let configured = Configured::read(&merged);
        finished(Command::new("umount").arg(&merged))?;
        configured
    }

    /// Makes the disk of a variant.
    pub(crate) fn disk(&self, variant: Variant, expected: &Configured) -> Result<Disk, Error> {
        self.disk_as(variant.name(), variant, expected)
    }

    /// The same under another name.
    pub(crate) fn disk_as(&self, name: &str, variant: Variant, expected: &Configured) -> Result<Disk, Error> {
        let merged = self.merged(name, &variant.items(self.kilnd, self.units, expected)?)?;
        let disk = format!("{name}.raw");
        let source = format!("/mnt/{name}/merged");
        let file = self.work.join(&disk);
        // A file that is there would keep its old content beyond what is written now.
        let _ = fs::remove_file(&file);
        let mut extended = "lazy_itable_init=1".to_owned();
        if variant == Variant::Disks {
            partition(&file)?;
            let _ = write!(extended, ",offset={}", START * SECTOR);
        }
        let options = ["-q", "-F", "-t", "ext4", "-E", &extended, "-d", &source, &disk, SIZE];
        let made = finished(self.tools.command("mke2fs").args(options));
        finished(Command::new("umount").arg(&merged))?;
        made.map(|()| Disk { file: disk, format: "raw" })
    }

    /// The medium of a variant, and its name below the work folder.
    pub(crate) fn medium(&self, variant: Variant) -> Result<String, Error> {
        let (folder_name, file_name) = match variant {
            Variant::Disks => ("medium-disks", "medium-disks.iso"),
            _ => ("medium", "medium.iso"),
        };
        let source = self.work.join(folder_name);
        folder(&source)?;
        let file = source.join("ovf-env.xml");
        fs::write(&file, medium::ovf_env(&variant.document())).map_err(Error::file(&file))?;
        let options = ["-quiet", "-joliet", "-rock", "-o", file_name, folder_name];
        finished(self.tools.command("genisoimage").args(options))?;
        Ok(file_name.to_owned())
    }

    /// An overlay over the base with these items in it.
    pub(crate) fn merged(&self, name: &str, items: &[Item]) -> Result<PathBuf, Error> {
        let place = self.work.join(name);
        let parts = ["upper", "work", "merged"].map(|part| place.join(part));
        for part in &parts {
            if part.exists() {
                fs::remove_dir_all(part).map_err(Error::file(part))?;
            }
            folder(part)?;
        }
        let [upper, work, merged] = parts;
        let options =
            format!("lowerdir={},upperdir={},workdir={}", self.base.display(), upper.display(), work.display());
        // Mounted where the tools see it: their view of the work folder is older than this mount.
        let merged = self.tools.see(merged.strip_prefix(self.work).unwrap_or(&merged));
        finished(Command::new("mount").args(["-t", "overlay", "overlay", "-o", &options]).arg(&merged))?;
        tree::place(&merged, items)?;
        Ok(merged)
    }
}
