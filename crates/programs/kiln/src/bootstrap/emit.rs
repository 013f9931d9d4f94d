//! The one way out for what may hold a secret: standard output, or a file that only its owner reads.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use kiln_aks_formats::Secret;

use crate::failure::Failure;

/// Writes it. A file is there whole and closed to others, or it is not there.
pub(crate) fn emit(content: &Secret, file: Option<&Path>) -> Result<(), Failure> {
    match file {
        Some(path) => {
            write(content, path).map_err(|error| Failure::failed(format_args!("{}: {error}", path.display())))
        }
        None => crate::answer::print(content.expose()),
    }
}

fn write(content: &Secret, path: &Path) -> std::io::Result<()> {
    if path.symlink_metadata().is_ok_and(|found| !found.is_file() && !found.is_symlink()) {
        return Err(std::io::Error::other("it is there and is no file; leave out -o for standard output"));
    }
    // A link is followed once, so that the file behind it is replaced and not the link.
    let target = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if target.exists() && !target.is_file() {
        return Err(std::io::Error::other("it is there and is no file; leave out -o for standard output"));
    }
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new()
        .prefix(".kiln-")
        .permissions(std::fs::Permissions::from_mode(0o600))
        .tempfile_in(folder)?;
    file.write_all(content.expose().as_bytes())?;
    file.as_file().sync_all()?;
    file.persist(&target)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_file_that_was_open_to_others_is_closed_when_a_secret_comes_into_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        std::fs::write(&path, "old").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
        let reader = std::fs::File::open(&path).unwrap();
        write(&Secret::new("new"), &path).unwrap();
        assert_eq!((std::fs::read_to_string(&path).unwrap().as_str(), mode(&path)), ("new", 0o600));
        // Who had the old file open still has the old file.
        assert_eq!(std::io::read_to_string(reader).unwrap(), "old");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_link_stays_and_the_file_behind_it_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real"), folder.path().join("link"));
        std::fs::write(&real, "old").unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        write(&Secret::new("new"), &link).unwrap();
        assert!(link.is_symlink());
        assert_eq!((std::fs::read_to_string(&real).unwrap().as_str(), mode(&real)), ("new", 0o600));
    }

    #[test]
    fn what_is_no_file_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        assert!(write(&Secret::new("new"), folder.path()).is_err());
        assert!(write(&Secret::new("new"), Path::new("/dev/null")).is_err());
        assert!(write(&Secret::new("new"), &folder.path().join("no/where")).is_err());
    }
}
