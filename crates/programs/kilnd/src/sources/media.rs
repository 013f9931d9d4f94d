//! The provisioning media: a virtual CD that Azure attaches for the first boot.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt};
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use crate::sources::endpoints::Endpoints;
use crate::sources::error::Error;
use crate::sources::iso9660;
use crate::sources::ovf::OvfEnv;

/// The file name, and its form without ISO 9660 extensions.
const NAMES: [&str; 2] = ["ovf-env.xml", "OVF_ENV.XML"];
/// File systems to mount if the direct reader finds nothing.
const FILE_SYSTEMS: [&str; 2] = ["udf", "iso9660"];
/// The temporary mount point. Only root may enter, because the media may contain a password.
const MOUNT_POINT: &str = "/run/kiln/cd";
/// Size limit. Custom data has at most 64 KiB.
const LARGEST: u64 = 1 << 20;

/// The content of the provisioning media; none if there are none.
pub fn ovf_env(endpoints: &Endpoints) -> Result<Option<OvfEnv>, Error> {
    let mut failed = None;
    for path in &endpoints.cd {
        match read(path) {
            Ok(Some((path, bytes))) => {
                let origin = path.display().to_string();
                return OvfEnv::parse(&bytes).map(Some).map_err(|source| Error::Ovf { origin, source });
            }
            Ok(None) => {}
            // Another disc, perhaps. Try the next drive.
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    failed.map_or(Ok(None), Err)
}

fn read(path: &Path) -> Result<Option<(PathBuf, Vec<u8>)>, Error> {
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_dir() => in_folder(path),
        Ok(metadata) if metadata.file_type().is_block_device() => on_device(path),
        Ok(_) => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(Error::Read { path: path.to_owned(), source }),
    }
}

fn in_folder(folder: &Path) -> Result<Option<(PathBuf, Vec<u8>)>, Error> {
    for name in NAMES {
        let path = folder.join(name);
        let size = match fs::metadata(&path) {
            Ok(metadata) => metadata.len(),
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(source) => return Err(Error::Read { path, source }),
        };
        if size > LARGEST {
            let source = io::Error::new(
                io::ErrorKind::FileTooLarge,
                format!("{size} bytes, more than the limit of {LARGEST} bytes"),
            );
            return Err(Error::Read { path, source });
        }
        return match fs::read(&path) {
            Ok(bytes) => Ok(Some((path, bytes))),
            Err(source) => Err(Error::Read { path, source }),
        };
    }
    Ok(None)
}

fn on_device(device: &Path) -> Result<Option<(PathBuf, Vec<u8>)>, Error> {
    let unreadable = |source| Error::Read { path: device.to_owned(), source };
    let read = fs::File::open(device).and_then(|mut device| iso9660::file(&mut device, &NAMES, LARGEST));
    match read {
        Ok(Some(bytes)) => return Ok(Some((device.to_owned(), bytes))),
        Ok(None) => {}
        // An empty drive.
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::NOMEDIUM.raw_os_error()) => return Ok(None),
        Err(error) => return Err(unreadable(error)),
    }
    let point = Path::new(MOUNT_POINT);
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(point)
        .map_err(|source| Error::Read { path: point.to_owned(), source })?;
    let flags = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    let mut last = io::Error::from(io::ErrorKind::Unsupported);
    for file_system in FILE_SYSTEMS {
        match mount(device, point, file_system, flags, None) {
            Ok(()) => {
                let found = in_folder(point);
                // Lazily, because another process may be using it.
                let _ = unmount(point, UnmountFlags::DETACH);
                return found;
            }
            // An empty drive.
            Err(rustix::io::Errno::NOMEDIUM) => return Ok(None),
            Err(errno) => last = errno.into(),
        }
    }
    Err(Error::Mount { path: device.to_owned(), source: last })
}

#[cfg(test)]
mod tests {
    use super::*;

    const XML: &str = "<Environment><LinuxProvisioningConfigurationSet><HostName>n</HostName></LinuxProvisioningConfigurationSet></Environment>";

    #[test]
    fn first_media_with_the_file_is_read() {
        let folder = tempfile::tempdir().expect("a folder");
        let (empty, full) = (folder.path().join("a"), folder.path().join("b"));
        fs::create_dir(&empty).expect("made");
        fs::create_dir(&full).expect("made");
        let cd = vec![folder.path().join("none"), empty, full.clone()];
        let endpoints = Endpoints { cd, ..Endpoints::default() };
        assert_eq!(ovf_env(&endpoints).expect("no media"), None);
        fs::write(full.join(NAMES[1]), XML).expect("written");
        let found = ovf_env(&endpoints).expect("read").expect("one");
        assert_eq!(found.host_name.as_deref(), Some("n"));
    }

    #[test]
    fn invalid_and_oversized_files_are_errors() {
        let folder = tempfile::tempdir().expect("a folder");
        let endpoints = Endpoints { cd: vec![folder.path().to_owned()], ..Endpoints::default() };
        let file = folder.path().join(NAMES[0]);
        for content in [b"<oops".to_vec(), vec![b' '; usize::try_from(LARGEST).expect("fits") + 1]] {
            fs::write(&file, content).expect("written");
            let error = ovf_env(&endpoints).expect_err("rejected");
            assert!(error.to_string().contains("ovf-env.xml"), "{error}");
        }
    }
}
