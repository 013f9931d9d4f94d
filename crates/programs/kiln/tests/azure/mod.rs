//! An embedded Azure as a test wants it.

use std::fs;

use tempfile::TempDir;
use testkit::{Kiln, SimProcess};

/// What the embedded Azure is started with. Instant and without faults unless told otherwise.
#[derive(Default)]
pub(crate) struct Azure {
    world: Option<String>,
    faults: Option<String>,
    speed: Option<String>,
}

/// A running one. Its process and its files end with this value, in this order.
pub(crate) struct Running {
    pub(crate) sim: SimProcess,
    _folder: TempDir,
}

impl Azure {
    /// With this world file.
    pub(crate) fn world(mut self, yaml: &str) -> Self {
        self.world = Some(yaml.to_owned());
        self
    }

    /// With this fault plan.
    pub(crate) fn faults(mut self, yaml: &str) -> Self {
        self.faults = Some(yaml.to_owned());
        self
    }

    /// With time that passes: so many world seconds in a real one.
    pub(crate) fn speed(mut self, factor: &str) -> Self {
        self.speed = Some(factor.to_owned());
        self
    }

    /// Starts it.
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
