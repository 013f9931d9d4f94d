//! An embedded Azure as a test wants it, and Azure's own clients against it.

#![expect(clippy::allow_attributes, reason = "each test binary uses another part of this module")]
#![allow(dead_code, reason = "each test binary uses another part of this module")]

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use testkit::{Finished, Kiln, SimProcess};

/// What the embedded Azure is started with. Instant and without faults unless told otherwise.
#[derive(Default)]
pub struct Azure {
    world: Option<String>,
    faults: Option<String>,
    speed: Option<String>,
}

/// A running one. Its files and its process end with this value.
pub struct Running {
    pub sim: SimProcess,
    folder: TempDir,
}

impl Azure {
    /// With this world file.
    pub fn world(mut self, yaml: &str) -> Self {
        self.world = Some(yaml.to_owned());
        self
    }

    /// With this fault plan.
    pub fn faults(mut self, yaml: &str) -> Self {
        self.faults = Some(yaml.to_owned());
        self
    }

    /// With time that passes: so many world seconds in a real one.
    pub fn speed(mut self, factor: &str) -> Self {
        self.speed = Some(factor.to_owned());
        self
    }

    /// Starts it.
    #[track_caller]
    pub fn start(self) -> Running {
        let folder = TempDir::new().unwrap();
        let speed = self.speed.unwrap_or_else(|| "instant".to_owned());
        let mut arguments = vec!["--speed".to_owned(), speed];
        for (option, text) in [("--world", self.world), ("--faults", self.faults)] {
            let Some(text) = text else { continue };
            let path = folder.path().join(format!("{}.yaml", option.trim_start_matches('-')));
            fs::write(&path, text).unwrap();
            arguments.extend([option.to_owned(), path.display().to_string()]);
        }
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        Running { sim: Kiln::at(env!("CARGO_BIN_EXE_kiln")).sim(&arguments), folder }
    }

    /// Starts it and plays a scenario of the Python SDK: a function of a module in `tests/python`.
    #[track_caller]
    pub fn plays(self, module: &str, scenario: &str) {
        self.start().plays(module, scenario, &[]);
    }
}

impl Running {
    /// Plays a scenario of the Python SDK, with more variables.
    #[track_caller]
    pub fn plays(&self, module: &str, scenario: &str, variables: &[(&str, &str)]) -> Finished {
        let ready = self.sim.ready().to_string();
        let mut all = vec![("KILN_SIM", ready.as_str()), ("REQUESTS_CA_BUNDLE", self.sim.key("caFile"))];
        all.extend_from_slice(variables);
        testkit::python(&python_folder().join("scenario.py"), &[module, scenario], &all)
    }

    /// A folder that is removed with it.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

fn python_folder() -> PathBuf {
    repository().join("tests/python")
}

/// The root of the repository.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}
