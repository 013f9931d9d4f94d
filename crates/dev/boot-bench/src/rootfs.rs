//! The disk of a variant: a file system in a file, with the common root folder and the files that the variant adds. No loop device is needed.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use kiln_machines::command::run;
use kiln_machines::{Overlay, qemu, tools};

use crate::boot::{Clock, Disk, Machine};
use crate::expected::Configured;
use crate::tree::{self, Item, create_folder};
use crate::variant::DOCUMENT;
use crate::{Error, Variant, media};

/// The size of the file system. The file is sparse.
const SIZE: &str = "3G";

const SIZE_BYTES: u64 = 3 << 30;
/// The first sector of the partition, where every partitioning tool puts it.
const START: u64 = 2048;
const SECTOR: u64 = 512;

/// Writes a disk with one partition, for a root that is to grow: a disk without a partition table has no free space after its file system.
fn write_partition_table(file: &Path) -> Result<(), Error> {
    let number = |number: u64| u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes();
    let mut table = vec![0; 512];
    // A Linux partition, addressed by sectors.
    table[450] = 0x83;
    table[454..458].copy_from_slice(&number(START));
    table[458..462].copy_from_slice(&number(SIZE_BYTES / SECTOR));
    table[510..].copy_from_slice(&[0x55, 0xaa]);
    let made = fs::write(file, table).and_then(|()| fs::File::options().write(true).open(file));
    made.and_then(|disk| disk.set_len(SIZE_BYTES + START * SECTOR)).map_err(Error::file(file))
}

/// Creates the disks.
pub(crate) struct Bench<'a> {
    /// The root folder that has QEMU, mke2fs and genisoimage.
    pub(crate) tools: &'a Path,
    /// The root folder that every disk starts from.
    pub(crate) base: &'a Path,
    /// The folder for everything that the boot bench creates.
    pub(crate) work: &'a Path,
    pub(crate) kilnd: &'a Path,
    pub(crate) units: &'a Path,
}

impl Bench<'_> {
    /// A machine with a disk and provisioning media.
    pub(crate) fn machine<'b>(
        &'b self,
        kernel: &'b Path,
        variant: Variant,
        disk: &'b Disk,
        media: &'b Path,
        clock: Clock,
    ) -> Machine<'b> {
        Machine { tools: self.tools, kernel, work: self.work, variant, disk, media, clock }
    }

    /// The configured paths of a node. kilnd applies the document once to a copy of the root folder, and every variant is compared with that.
    pub(crate) fn expected(&self) -> Result<Configured, Error> {
        let nothing = Configured::default();
        let merged = self.merged("expected", &Variant::Kilnd.items(self.kilnd, self.units, &nothing)?)?;
        let document = self.work.join("document.json");
        fs::write(&document, DOCUMENT).map_err(Error::file(&document))?;
        run(Command::new(self.kilnd).arg("apply").arg("--config").arg(&document).arg("--root").arg(&merged))?;
        let configured = Configured::read(&merged);
        run(Command::new("umount").arg(&merged))?;
        configured
    }

    /// Creates the disk of a variant.
    pub(crate) fn disk(&self, variant: Variant, expected: &Configured) -> Result<Disk, Error> {
        self.disk_as(variant.name(), variant, expected)
    }

    /// Creates the disk of a variant under another name.
    pub(crate) fn disk_as(&self, name: &str, variant: Variant, expected: &Configured) -> Result<Disk, Error> {
        let merged = self.merged(name, &variant.items(self.kilnd, self.units, expected)?)?;
        let file = self.work.join(format!("{name}.raw"));
        // mke2fs would keep the content of an existing file where it writes nothing.
        let _ = fs::remove_file(&file);
        let mut extended = "lazy_itable_init=1".to_owned();
        if variant == Variant::Disks {
            write_partition_table(&file)?;
            let _ = write!(extended, ",offset={}", START * SECTOR);
        }
        let mut command = tools::command(Some(self.tools), "mke2fs");
        command.env("MKE2FS_CONFIG", self.tools.join("etc/mke2fs.conf"));
        command.args(["-q", "-F", "-t", "ext4", "-E", &extended, "-d"]).arg(&merged).arg(&file).arg(SIZE);
        let created = run(&mut command);
        run(Command::new("umount").arg(&merged))?;
        created?;
        Ok(Disk { file, format: "raw" })
    }

    /// Creates the provisioning media of a variant: a folder, and an image of it.
    pub(crate) fn media(&self, variant: Variant) -> Result<(PathBuf, PathBuf), Error> {
        let name = if variant == Variant::Disks { "media-disks" } else { "media" };
        let source = self.work.join(name);
        create_folder(&source)?;
        let file = source.join("ovf-env.xml");
        fs::write(&file, media::ovf_env(&variant.document())).map_err(Error::file(&file))?;
        let image = self.work.join(format!("{name}.iso"));
        qemu::make_iso(Some(self.tools), &image, &source)?;
        Ok((source, image))
    }

    /// Mounts an overlay over the base and applies items to it.
    pub(crate) fn merged(&self, name: &str, items: &[Item]) -> Result<PathBuf, Error> {
        let parts = ["upper", "work", "merged"].map(|part| self.work.join(name).join(part));
        for part in &parts {
            if part.exists() {
                fs::remove_dir_all(part).map_err(Error::file(part))?;
            }
            create_folder(part)?;
        }
        let [upper, work, merged] = parts;
        Overlay { lower: vec![self.base.to_owned()], upper, work }.mount(&merged)?;
        tree::apply(&merged, items)?;
        Ok(merged)
    }
}
