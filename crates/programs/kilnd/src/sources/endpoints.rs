//! Where a machine asks.

use std::path::PathBuf;

/// Where a machine asks. Those of a real machine by default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoints {
    /// The metadata service, `http://host[:port][/prefix]`.
    pub imds: String,
    /// The wire server, likewise.
    pub wire_server: String,
    /// The folder in which the firmware's words about the machine are.
    pub dmi: PathBuf,
    /// Where the provisioning medium may be: folders, or devices that are mounted for the time of a look.
    pub cd: Vec<PathBuf>,
    /// The folder of the credentials that systemd was given.
    pub credentials: PathBuf,
}

impl Default for Endpoints {
    fn default() -> Self {
        Self {
            imds: "http://169.254.169.254".to_owned(),
            wire_server: "http://168.63.129.16".to_owned(),
            dmi: PathBuf::from("/sys/class/dmi/id"),
            cd: vec![PathBuf::from("/dev/sr0"), PathBuf::from("/dev/sr1")],
            credentials: PathBuf::from("/run/credentials/@system"),
        }
    }
}
