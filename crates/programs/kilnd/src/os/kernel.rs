//! Settings and host name of the running kernel.

use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::os::error::Error;
use crate::os::ops::Op;
use crate::os::root::Root;

impl Root {
    /// The value of a setting below `/proc/sys` or `/sys`, trimmed; none if it does not exist or cannot be read.
    pub fn kernel_setting(&self, path: &str) -> Result<Option<String>, Error> {
        let bytes = match self.read_if_exists(path) {
            Ok(bytes) => bytes,
            // Write-only settings.
            Err(error) if matches!(error.errno(), Some(Errno::ACCESS | Errno::INVAL | Errno::IO)) => None,
            Err(error) => return Err(error),
        };
        Ok(bytes.map(|bytes| String::from_utf8_lossy(&bytes).trim_end().to_owned()))
    }

    /// Changes a setting with a single write, because the kernel treats each write as a whole value.
    pub fn set_kernel(&self, path: &str, value: &str) -> Result<(), Error> {
        let flags = OFlags::WRONLY | OFlags::TRUNC | OFlags::CLOEXEC;
        let wrong = || Error::Setting { path: path.to_owned(), value: value.to_owned() };
        let written = self.ops.act(Op::Write, "set", path, || {
            let file = self.open_at(path, flags)?;
            rustix::io::write(&file, value.as_bytes())
        });
        match written {
            Ok(count) if count == value.len() => Ok(()),
            Ok(_) => Err(wrong()),
            Err(error) if matches!(error.errno(), Some(Errno::INVAL | Errno::RANGE)) => Err(wrong()),
            Err(error) => Err(error),
        }
    }

    /// The host name: of the kernel, or below `--root` from `/etc/hostname`.
    pub fn host_name(&self) -> Result<String, Error> {
        if self.is_host() {
            return Ok(rustix::system::uname().nodename().to_string_lossy().into_owned());
        }
        let bytes = self.read_if_exists("/etc/hostname")?.unwrap_or_default();
        Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
    }

    /// Sets the host name of the kernel. Does nothing below `--root`.
    pub fn set_host_name(&self, name: &str) -> Result<(), Error> {
        if !self.is_host() {
            return Ok(());
        }
        self.ops.act(Op::Write, "set the host name", name, || rustix::system::sethostname(name.as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn setting_is_read_trimmed_and_written_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = Root::open(folder.path()).expect("a root");
        let file = folder.path().join("proc/sys/vm/swappiness");
        fs::create_dir_all(file.parent().expect("a parent")).expect("folders");
        fs::write(&file, "60\n").expect("write");
        let path = "/proc/sys/vm/swappiness";
        assert_eq!(root.kernel_setting(path).expect("read").as_deref(), Some("60"));
        root.set_kernel(path, "10").expect("set");
        assert_eq!(fs::read_to_string(&file).expect("read"), "10");
        assert_eq!(root.counts().writes, 1);
        assert_eq!(root.kernel_setting("/proc/sys/vm/none").expect("read"), None);
        assert!(root.set_kernel("/proc/sys/vm/none", "1").expect_err("absent").is_not_found());
    }

    #[test]
    fn host_name_below_a_root_comes_from_its_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = Root::open(folder.path()).expect("a root");
        assert_eq!(root.host_name().expect("read"), "");
        fs::create_dir(folder.path().join("etc")).expect("etc");
        fs::write(folder.path().join("etc/hostname"), "node7\n").expect("write");
        root.set_host_name("other").expect("nothing");
        assert_eq!(root.host_name().expect("read"), "node7");
        assert_eq!(root.counts().total(), 0);
    }
}
