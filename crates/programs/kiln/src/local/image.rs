//! `kiln local image`: the images that machines are created from.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use kiln_local::{MachineKind, ids};
use serde_json::json;

use super::Common;
use super::factory::failed;
use crate::answer;
use crate::failure::Failure;
use crate::prototype::connect::Now;

const EXAMPLES: &str = "Examples:
  kiln local image import debian ./root
  kiln local image import debian-vm ./disk.qcow2

A folder is the root of a system with systemd, which runs in systemd-nspawn; a file is a disk, which runs in QEMU. It is not copied, so it
must not change or move afterwards.";

#[derive(Debug, Subcommand)]
pub(crate) enum Image {
    /// Register a root folder or a disk file as an image
    Import(Import),
}

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Import {
    #[command(flatten)]
    common: Common,
    /// Name of the image
    name: String,
    /// Root folder, or disk file
    base: PathBuf,
}

pub(crate) async fn run(command: &Image, now: &Now) -> Result<(), Failure> {
    let Image::Import(Import { common, name, base }) = command;
    let kind = match std::fs::metadata(base) {
        Ok(found) if found.is_dir() => MachineKind::Nspawn,
        Ok(_) => MachineKind::Qemu,
        Err(error) => return Err(Failure::file(base, error)),
    };
    common.state.open(now)?.import_image(name, kind, base).await.map_err(|error| failed(&error))?;
    let value = json!({"name": name, "id": ids::image_id(name), "kind": kind, "base": base});
    answer::either(common.output, &value, |_| format!("imported image `{name}` from `{}`\n", base.display()))
}
