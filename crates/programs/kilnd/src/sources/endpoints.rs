//! Addresses and paths of the sources.

use std::path::PathBuf;

/// Addresses and paths of the sources. The defaults are those of a real machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoints {
    /// Metadata service, `http://host[:port][/prefix]`.
    pub imds: String,
    /// Wire server, likewise.
    pub wire_server: String,
    /// The folder with the DMI ids.
    pub dmi: PathBuf,
    /// Provisioning media: folders, or devices that are mounted temporarily.
    pub cd: Vec<PathBuf>,
    /// The folder of system credentials.
    pub credentials: PathBuf,
    /// The folder in which waagent and cloud-init keep their state.
    pub var_lib: PathBuf,
}

impl Default for Endpoints {
    fn default() -> Self {
        Self {
            imds: "http://169.254.169.254".to_owned(),
            wire_server: "http://168.63.129.16".to_owned(),
            dmi: PathBuf::from("/sys/class/dmi/id"),
            cd: vec![PathBuf::from("/dev/sr0"), PathBuf::from("/dev/sr1")],
            credentials: PathBuf::from("/run/credentials/@system"),
            var_lib: PathBuf::from("/var/lib"),
        }
    }
}
