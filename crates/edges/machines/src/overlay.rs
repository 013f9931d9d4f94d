//! Root folders that are laid over each other.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Error, command};

/// The folders of one overlayfs mount.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Overlay {
    /// The folders that are only read, lowest first.
    pub lower: Vec<PathBuf>,
    /// Receives every change.
    pub upper: PathBuf,
    /// overlayfs's own folder, on the file system of `upper`.
    pub work: PathBuf,
}

impl Overlay {
    /// The mount options. Paths below `base` are written relative to it, because the options of a mount are limited to one page; the mount
    /// must then be made from `base`.
    ///
    /// `xino=on` gives all files one device number, as on a disk. Without it, programs that find mount points by comparing device numbers
    /// take every file for one.
    pub fn options(&self, base: &Path) -> String {
        let relative = |path: &Path| path.strip_prefix(base).unwrap_or(path).display().to_string();
        // overlayfs names the topmost folder first.
        let lower: Vec<String> = self.lower.iter().rev().map(|path| relative(path)).collect();
        let (upper, work) = (relative(&self.upper), relative(&self.work));
        format!("lowerdir={},upperdir={upper},workdir={work},xino=on", lower.join(":"))
    }

    /// Mounts the overlay at `target`, in the mount namespace of this process.
    pub fn mount(&self, target: &Path) -> Result<(), Error> {
        let options = self.options(Path::new(""));
        command::run(Command::new("mount").args(["-t", "overlay", "overlay", "-o", &options]).arg(target))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_name_the_topmost_layer_first_and_shorten_paths_below_the_base() {
        let overlay = Overlay {
            lower: vec!["/roots/debian".into(), "/state/layers/1".into()],
            upper: "/state/layers/2".into(),
            work: "/state/work".into(),
        };
        let options = "lowerdir=layers/1:/roots/debian,upperdir=layers/2,workdir=work,xino=on";
        assert_eq!(overlay.options(Path::new("/state")), options);
    }
}
