//! Output of content that may contain secrets: to standard output, or to a file that only its owner can read.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use kiln_aks_formats::Secret;

use crate::failure::Failure;

/// Writes the content. A file is replaced atomically and has mode 0600 from the start.
pub(crate) fn emit(content: &Secret, file: Option<&Path>) -> Result<(), Failure> {
    match file {
        Some(path) => {
            write(content, path).map_err(|error| Failure::failed(format_args!("{}: {error}", path.display())))
        }
        None => crate::answer::print(content.expose()),
    }
}

const NOT_A_FILE: &str = "not a regular file; omit `--out` to write to standard output";

fn write(content: &Secret, path: &Path) -> std::io::Result<()> {
    if path.symlink_metadata().is_ok_and(|found| !found.is_file() && !found.is_symlink()) {
        return Err(std::io::Error::other(NOT_A_FILE));
    }
    // A symbolic link is followed, so that its target is replaced and not the link.
    let target = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if target.exists() && !target.is_file() {
        return Err(std::io::Error::other(NOT_A_FILE));
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
    fn replaced_file_is_not_readable_by_others() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        std::fs::write(&path, "old").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
        let reader = std::fs::File::open(&path).unwrap();
        write(&Secret::new("new"), &path).unwrap();
        assert_eq!((std::fs::read_to_string(&path).unwrap().as_str(), mode(&path)), ("new", 0o600));
        // A process that has the old file open still reads the old content.
        assert_eq!(std::io::read_to_string(reader).unwrap(), "old");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn target_of_a_symlink_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real"), folder.path().join("link"));
        std::fs::write(&real, "old").unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        write(&Secret::new("new"), &link).unwrap();
        assert!(link.is_symlink());
        assert_eq!((std::fs::read_to_string(&real).unwrap().as_str(), mode(&real)), ("new", 0o600));
    }

    #[test]
    fn only_regular_files_are_replaced() {
        let folder = tempfile::tempdir().unwrap();
        assert!(write(&Secret::new("new"), folder.path()).is_err());
        assert!(write(&Secret::new("new"), Path::new("/dev/null")).is_err());
        assert!(write(&Secret::new("new"), &folder.path().join("no/where")).is_err());
    }
}
