//! Programs of another system's root, run without entering it: they see this system's files under their own names.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::WorldError;

/// A program, and the package of Debian that it is in.
pub(super) type Needed = (&'static str, &'static str);

/// Where programs are looked for where nobody says.
pub(super) const SEARCHED: &str = "/usr/sbin:/usr/bin:/sbin:/bin";

/// Says which program is missing before anything is made, instead of half-way. `root` is another system's, where programs come from one.
pub(super) fn must_have(root: Option<&Path>, programs: &[Needed]) -> Result<(), WorldError> {
    let path = std::env::var_os("PATH").unwrap_or_else(|| SEARCHED.into());
    let folders: Vec<PathBuf> = match root {
        Some(root) => ["usr/bin", "usr/sbin"].map(|folder| root.join(folder)).into(),
        None => std::env::split_paths(&path).collect(),
    };
    let runs = |file: PathBuf| {
        let found = std::fs::metadata(file);
        found.is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    match programs.iter().find(|(program, _)| !folders.iter().any(|folder| runs(folder.join(program)))) {
        None => Ok(()),
        Some((program, package)) => {
            let place = root.map_or_else(|| "PATH".to_owned(), |root| root.display().to_string());
            Err(WorldError::Missing { program, package, place })
        }
    }
}

/// The words that run a program: its name, or its loader with its own libraries where it comes from a root.
pub fn program(root: Option<&Path>, name: &str) -> Vec<OsString> {
    let Some(root) = root else { return vec![name.into()] };
    let machine = std::env::consts::ARCH;
    let library = root.join(format!("usr/lib/{machine}-linux-gnu"));
    let mut words = vec![loader(root).into()];
    words.extend(["--library-path".into(), library.clone().into_os_string()]);
    let inner = ["pulseaudio", "systemd"].map(|inner| library.join(inner));
    for inner in inner.iter().filter(|inner| inner.exists()) {
        words[2].push(":");
        words[2].push(inner);
    }
    let program = ["usr/bin", "usr/sbin"].map(|folder| root.join(folder).join(name));
    let found = program.iter().find(|path| path.exists()).unwrap_or(&program[0]);
    words.push(found.into());
    words
}

fn loader(root: &Path) -> PathBuf {
    let named = |folder: &str| {
        let entries = std::fs::read_dir(root.join(folder)).into_iter().flatten().flatten();
        let mut all = entries.map(|entry| entry.path());
        all.find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("ld-linux-")))
    };
    named("usr/lib64").or_else(|| named("usr/lib")).unwrap_or_else(|| root.join("usr/lib64/ld-linux-x86-64.so.2"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_is_told_with_its_package_and_one_that_cannot_be_run_is_missing() {
        let root = tempfile::tempdir().unwrap();
        let look = || must_have(Some(root.path()), &[("first", "one"), ("second", "two")]);
        let tell = |mode: u32, name: &str| {
            let path = root.path().join("usr/sbin").join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, "").unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        };
        let missing = |found: Result<(), WorldError>| match found {
            Err(WorldError::Missing { program, package, .. }) => (program, package),
            other => panic!("{other:?}"),
        };
        assert_eq!(missing(look()), ("first", "one"));
        tell(0o755, "first");
        tell(0o644, "second");
        assert_eq!(missing(look()), ("second", "two"));
        tell(0o755, "second");
        look().unwrap();
    }

    #[test]
    fn a_program_of_a_root_is_run_by_the_roots_own_loader() {
        assert_eq!(program(None, "qemu-img"), ["qemu-img"]);
        let root = tempfile::tempdir().unwrap();
        for file in ["usr/lib64/ld-linux-any.so.2", "usr/sbin/mke2fs"] {
            let path = root.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        let words = program(Some(root.path()), "mke2fs");
        assert_eq!(words[0], root.path().join("usr/lib64/ld-linux-any.so.2"));
        assert_eq!(words[3], root.path().join("usr/sbin/mke2fs"));
    }
}
