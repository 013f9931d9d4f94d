//! Running scenarios of the Python SDK.

use std::path::Path;

use testkit::Finished;

use crate::azure::{Azure, Running};

const PLAYER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../tests/python/scenario.py");

impl Azure {
    /// Starts the embedded Azure and runs a scenario: a function of a module in `tests/python`.
    #[track_caller]
    pub(crate) fn plays(self, module: &str, scenario: &str) {
        self.start().plays(module, scenario, &[]);
    }
}

impl Running {
    /// Runs a scenario with additional environment variables.
    #[track_caller]
    pub(crate) fn plays(&self, module: &str, scenario: &str, variables: &[(&str, &str)]) -> Finished {
        let ready = self.sim.ready().to_string();
        let mut all = vec![("KILN_SIM", ready.as_str()), ("REQUESTS_CA_BUNDLE", self.sim.key("caFile"))];
        all.extend_from_slice(variables);
        testkit::python(Path::new(PLAYER), &[module, scenario], &all)
    }
}
