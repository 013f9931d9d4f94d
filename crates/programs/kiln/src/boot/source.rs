//! Where a boot is read from: this machine, a capture, or a pasted chain.

use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use kiln_boot_analysis::{Boot, capture, chain_text};

use crate::failure::Failure;

/// A capture of 100,000 units has some 50 MB; nothing honest is larger than this.
const LARGEST: u64 = 1 << 30;

/// Where the boot comes from. This machine, unless said otherwise.
#[derive(Debug, Args)]
pub(super) struct Source {
    /// A file of `kiln boot capture`, or a folder with manager.txt and units.txt
    #[arg(long, value_name = "PATH", conflicts_with = "chain")]
    capture: Option<PathBuf>,
    /// What `systemd-analyze critical-chain` printed
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

/// Reads a file as text; what is no UTF-8 in it becomes a mark, since unit names are ASCII.
pub(super) fn text(path: &Path) -> Result<String, Failure> {
    let size = std::fs::metadata(path).map_err(|error| Failure::file(path, error))?.len();
    if size > LARGEST {
        return Err(Failure::file(path, format_args!("{size} bytes are more than a capture has")));
    }
    let bytes = std::fs::read(path).map_err(|error| Failure::file(path, error))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// What systemd recorded on this machine.
pub(super) fn live() -> Result<String, Failure> {
    let manager = systemctl(&["show", "--no-pager"])?;
    let properties = format!("--property={}", capture::UNIT_PROPERTIES);
    let units = systemctl(&["show", "--no-pager", "--all", &properties, "*"])?;
    Ok(format!("{manager}\n{units}"))
}

fn systemctl(arguments: &[&str]) -> Result<String, Failure> {
    let hint = "run this on a node that runs systemd, or give --capture or --chain";
    let output = Command::new("systemctl").args(arguments).env("SYSTEMD_COLORS", "0").env("LC_ALL", "C.UTF-8").output();
    let output = output.map_err(|error| Failure::failed(format_args!("systemctl: {error}")).hint(hint))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(Failure::failed(format_args!("systemctl show: {}", said.trim())).hint(hint))
}
