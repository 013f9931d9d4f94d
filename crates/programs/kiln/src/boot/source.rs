//! Input of the boot commands: this machine, a capture, or a pasted chain.

use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use kiln_boot_analysis::{Boot, capture, chain_text};

use crate::failure::Failure;

/// A capture of 100,000 units has about 50 MB.
const MAX_SIZE: u64 = 1 << 30;

/// Options for the input. The default is this machine.
#[derive(Debug, Args)]
pub(super) struct Source {
    /// File written by `kiln boot capture`, or folder with manager.txt and units.txt
    #[arg(long, value_name = "PATH", conflicts_with = "chain")]
    capture: Option<PathBuf>,
    /// File with the output of `systemd-analyze critical-chain`
    #[arg(long, value_name = "FILE")]
    chain: Option<PathBuf>,
}

impl Source {
    pub(super) fn read(&self) -> Result<Boot, Failure> {
        match (&self.capture, &self.chain) {
            (Some(path), _) => capture(path),
            (None, Some(path)) => chain_text::parse(&text(path)?).map_err(|error| Failure::file(path, error)),
            (None, None) => capture::parse(&live()?).map_err(Failure::failed),
        }
    }
}

/// Reads a capture.
pub(super) fn capture(path: &Path) -> Result<Boot, Failure> {
    let read = if path.is_dir() {
        format!("{}\n\n{}", text(&path.join("manager.txt"))?, text(&path.join("units.txt"))?)
    } else {
        text(path)?
    };
    capture::parse(&read).map_err(|error| Failure::file(path, error))
}

/// Reads a file as text. Invalid UTF-8 is replaced: unit names are ASCII, so the rest is still usable.
pub(super) fn text(path: &Path) -> Result<String, Failure> {
    let size = std::fs::metadata(path).map_err(|error| Failure::file(path, error))?.len();
    if size > MAX_SIZE {
        return Err(Failure::file(path, format_args!("the file has {size} bytes; a capture has at most {MAX_SIZE}")));
    }
    let bytes = std::fs::read(path).map_err(|error| Failure::file(path, error))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Takes a capture of this machine.
pub(super) fn live() -> Result<String, Failure> {
    let manager = systemctl(&["show", "--no-pager"])?;
    let properties = format!("--property={}", capture::UNIT_PROPERTIES);
    let units = systemctl(&["show", "--no-pager", "--all", &properties, "*"])?;
    Ok(format!("{manager}\n{units}"))
}

fn systemctl(arguments: &[&str]) -> Result<String, Failure> {
    let hint = "run this on a machine with systemd, or use `--capture` or `--chain`";
    let output = Command::new("systemctl").args(arguments).env("SYSTEMD_COLORS", "0").env("LC_ALL", "C.UTF-8").output();
    let output = output.map_err(|error| Failure::failed(format_args!("cannot run `systemctl`: {error}")).hint(hint))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let message = String::from_utf8_lossy(&output.stderr);
    Err(Failure::failed(format_args!("`systemctl show` failed: {}", message.trim())).hint(hint))
}
