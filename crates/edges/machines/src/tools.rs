//! Programs of this system, or of another Debian's root folder. The latter run without entering the root: they see this system's files.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Error;

/// A program and the package of Debian and Ubuntu that contains it.
pub type Needed = (&'static str, &'static str);

/// The search path where the environment has none.
pub const DEFAULT_PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";

/// Fails if one of the programs is missing, so that nothing is left half done. `root` is the root folder that has them, if it is not this
/// system's own.
pub fn require(root: Option<&Path>, programs: &[Needed]) -> Result<(), Error> {
    let path = std::env::var_os("PATH").unwrap_or_else(|| DEFAULT_PATH.into());
    let folders: Vec<PathBuf> = match root {
        Some(root) => ["usr/bin", "usr/sbin"].map(|folder| root.join(folder)).into(),
        None => std::env::split_paths(&path).collect(),
    };
    let is_executable = |file: PathBuf| {
        let metadata = fs::metadata(file);
        metadata.is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
    };
    match programs.iter().find(|(program, _)| !folders.iter().any(|folder| is_executable(folder.join(program)))) {
        None => Ok(()),
        Some((program, package)) => {
            let searched = root.map_or_else(|| "PATH".to_owned(), |root| root.display().to_string());
            Err(Error::Missing { program, package, searched })
        }
    }
}

/// The words that run a program: its name, or for a program of a root folder its loader with its own libraries.
pub fn program(root: Option<&Path>, name: &str) -> Vec<OsString> {
    let Some(root) = root else { return vec![name.into()] };
    let library = root.join(format!("usr/lib/{}-linux-gnu", std::env::consts::ARCH));
    let mut words = vec![loader(root).into(), "--library-path".into(), library.clone().into_os_string()];
    let inner = ["pulseaudio", "systemd"].map(|inner| library.join(inner));
    for inner in inner.iter().filter(|inner| inner.exists()) {
        words[2].push(":");
        words[2].push(inner);
    }
    let paths = ["usr/bin", "usr/sbin"].map(|folder| root.join(folder).join(name));
    words.push(paths.iter().find(|path| path.exists()).unwrap_or(&paths[0]).into());
    words
}

/// A command that runs a program as [`program`] does.
pub fn command(root: Option<&Path>, name: &str) -> Command {
    let words = program(root, name);
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]);
    command
}

fn loader(root: &Path) -> PathBuf {
    let find = |folder: &str| {
        let entries = fs::read_dir(root.join(folder)).into_iter().flatten().flatten();
        let mut all = entries.map(|entry| entry.path());
        all.find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("ld-linux-")))
    };
    find("usr/lib64").or_else(|| find("usr/lib")).unwrap_or_else(|| root.join("usr/lib64/ld-linux-x86-64.so.2"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_program_is_named_with_its_package_and_must_be_executable() {
        let root = tempfile::tempdir().unwrap();
        let check = || require(Some(root.path()), &[("first", "one"), ("second", "two")]);
        let install = |mode: u32, name: &str| {
            let path = root.path().join("usr/sbin").join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        };
        let missing = |result: Result<(), Error>| match result {
            Err(Error::Missing { program, package, .. }) => (program, package),
            other => panic!("{other:?}"),
        };
        assert_eq!(missing(check()), ("first", "one"));
        install(0o755, "first");
        install(0o644, "second");
        assert_eq!(missing(check()), ("second", "two"));
        install(0o755, "second");
        check().unwrap();
    }

    #[test]
    fn program_of_a_root_folder_runs_with_the_loader_of_that_root() {
        assert_eq!(program(None, "qemu-img"), ["qemu-img"]);
        let root = tempfile::tempdir().unwrap();
        for file in ["usr/lib64/ld-linux-any.so.2", "usr/sbin/mke2fs"] {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let words = program(Some(root.path()), "mke2fs");
        assert_eq!(words[0], root.path().join("usr/lib64/ld-linux-any.so.2"));
        assert_eq!(words[3], root.path().join("usr/sbin/mke2fs"));
    }
}
