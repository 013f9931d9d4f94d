//! Recorded data of other projects, which tests compare with and which is not part of the repository.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

/// The folder with the recorded data: `KILN_RECORDINGS`, else `../shared` next to the repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recordings {
    root: PathBuf,
    /// The variable that makes the data mandatory.
    required_by: Option<&'static str>,
}

impl Recordings {
    /// A folder that replaces `../shared`. A relative one starts at the root of the repository, because tests run in the folders of
    /// their crates.
    pub const VARIABLE: &'static str = "KILN_RECORDINGS";

    /// The path of every test that needs recorded data contains this module, so that `cargo xtask test` can leave such tests out by
    /// name. They fail when cargo runs them without the data.
    pub const MODULE: &'static str = "recordings::";

    /// The folder counts only with all of these: another `../shared` may be next to a clone by chance.
    const FOLDERS: [&'static str; 3] = ["azure-specs", "boot-samples", "golden"];

    /// The folder for this repository and this process's environment.
    pub fn from_environment() -> Self {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        Self::from_variables(here.ancestors().nth(3).unwrap_or(here), |name| std::env::var_os(name))
    }

    /// The folder for a repository and given variables. An empty variable counts as unset.
    pub fn from_variables(repository: &Path, variable: impl Fn(&str) -> Option<OsString>) -> Self {
        let set = |name| variable(name).filter(|value| !value.is_empty());
        let shared = || repository.parent().unwrap_or(repository).join("shared");
        Self {
            root: set(Self::VARIABLE).map_or_else(shared, |value| repository.join(value)),
            required_by: [Self::VARIABLE, "CI"].into_iter().find(|name| set(name).is_some()),
        }
    }

    /// Whether tests fail without the data: in CI, and where `KILN_RECORDINGS` is set.
    pub fn is_required(&self) -> bool {
        self.required_by.is_some()
    }

    /// The folder, if it has everything.
    pub fn find(&self) -> Result<&Path, MissingRecordings> {
        match Self::FOLDERS.iter().map(|name| self.root.join(name)).find(|folder| !folder.is_dir()) {
            None => Ok(&self.root),
            Some(folder) => Err(MissingRecordings { folder, required_by: self.required_by }),
        }
    }
}

/// The recorded data is not on this machine.
#[derive(Debug, PartialEq, Eq)]
pub struct MissingRecordings {
    folder: PathBuf,
    required_by: Option<&'static str>,
}

impl fmt::Display for MissingRecordings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no recorded data: `{}` does not exist", self.folder.display())?;
        self.required_by.map_or(Ok(()), |name| write!(f, ", and `{name}` is set"))
    }
}

impl std::error::Error for MissingRecordings {}

#[cfg(test)]
mod tests {
    use super::*;

    fn recordings(variables: &[(&str, &str)]) -> Recordings {
        let find = |name: &str| variables.iter().find(|(n, _)| *n == name).map(|(_, value)| value.into());
        Recordings::from_variables(Path::new("/nonexistent/kiln"), find)
    }

    #[test]
    fn the_folder_is_next_to_the_repository_unless_the_variable_is_set() {
        assert_eq!(recordings(&[]).root, Path::new("/nonexistent/shared"));
        assert_eq!(recordings(&[(Recordings::VARIABLE, "")]).root, Path::new("/nonexistent/shared"));
        assert_eq!(recordings(&[(Recordings::VARIABLE, "/data")]).root, Path::new("/data"));
        assert_eq!(recordings(&[(Recordings::VARIABLE, "../data")]).root, Path::new("/nonexistent/kiln/../data"));
    }

    #[test]
    fn missing_data_is_an_error_in_ci_and_where_the_variable_is_set() {
        assert!(!recordings(&[("CI", "")]).is_required());
        for (variables, ending) in [
            (&[][..], "azure-specs` does not exist"),
            (&[("CI", "true")], "and `CI` is set"),
            (&[(Recordings::VARIABLE, "/nonexistent")], "and `KILN_RECORDINGS` is set"),
        ] {
            let recordings = recordings(variables);
            let message = recordings.find().unwrap_err().to_string();
            assert!(message.ends_with(ending), "{message}");
            assert_eq!(recordings.is_required(), !variables.is_empty());
        }
    }

    #[test]
    fn a_folder_that_lacks_a_part_of_the_data_does_not_count() {
        let root = std::env::temp_dir().join(format!("kiln-recordings-{}", std::process::id()));
        let recordings = Recordings { root: root.clone(), required_by: None };
        for name in ["golden", "azure-specs"] {
            std::fs::create_dir_all(root.join(name)).unwrap();
        }
        let partial = recordings.find().map(Path::to_owned);
        std::fs::create_dir_all(root.join("boot-samples")).unwrap();
        let complete = recordings.find().map(Path::to_owned);
        std::fs::remove_dir_all(&root).unwrap();
        assert_eq!(partial.unwrap_err().folder, root.join("boot-samples"));
        assert_eq!(complete, Ok(root));
    }
}
