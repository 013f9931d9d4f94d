//! A `kiln sim serve` process for tests.

use std::fs;

use tempfile::TempDir;
use testkit::{Kiln, SimProcess};

/// The options of the process. Default: speed `instant`, no faults.
#[derive(Default)]
pub(crate) struct Azure {
    world: Option<String>,
    faults: Option<String>,
    speed: Option<String>,
}

/// A running process. It is stopped before its files are deleted.
pub(crate) struct Running {
    pub(crate) sim: SimProcess,
    _folder: TempDir,
}

impl Azure {
    /// Sets the world file.
    pub(crate) fn world(mut self, yaml: &str) -> Self {
        self.world = Some(yaml.to_owned());
        self
    }

    /// Sets the fault plan.
    pub(crate) fn faults(mut self, yaml: &str) -> Self {
        self.faults = Some(yaml.to_owned());
        self
    }

    /// Sets the speed: simulated seconds per real second.
    pub(crate) fn speed(mut self, factor: &str) -> Self {
        self.speed = Some(factor.to_owned());
        self
    }

    /// Starts the process.
    #[track_caller]
    pub(crate) fn start(self) -> Running {
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
        Running { sim: Kiln::at(env!("CARGO_BIN_EXE_kiln")).sim(&arguments), _folder: folder }
    }
}
