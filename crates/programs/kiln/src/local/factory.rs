//! The factory of `kiln local`: a state folder, and the sandbox that runs its machines.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use jiff::{SignedDuration, Timestamp};
use kiln_local::sandbox::{Sandbox, program};
use kiln_local::{Error, LocalOptions, QemuImg, Store};
use kiln_types::{DefinitionName, ErrorClass, FactoryError as _, ImageSource};
use tokio::time::Instant;

use crate::failure::Failure;
use crate::prototype::connect::Now;

/// The default state folder.
pub(crate) const STATE: &str = "/var/lib/kiln-local";

/// The variable with the state folder, set for every command in a sandbox.
pub(crate) const VARIABLE: &str = "KILN_LOCAL";

/// The factory, with the sandbox that this process is in.
pub(crate) type Local = kiln_local::Local<Sandbox>;

/// The state folder.
#[derive(Debug, Clone, Args)]
pub(crate) struct State {
    /// Folder for pools, disks and images [env: `KILN_LOCAL`] [default: /var/lib/kiln-local]
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
}

impl State {
    pub(crate) fn folder(&self) -> PathBuf {
        let variable = || std::env::var_os(VARIABLE).map(PathBuf::from);
        self.state.clone().or_else(variable).unwrap_or_else(|| STATE.into())
    }

    pub(crate) fn open(&self, now: &Now) -> Result<Local, Failure> {
        open(&self.folder(), now)
    }
}

/// A clock that starts at a time and runs on.
pub(crate) fn clock(begin: Timestamp) -> Now {
    let started = Instant::now();
    Arc::new(move || begin + SignedDuration::try_from(started.elapsed()).unwrap_or(SignedDuration::MAX))
}

/// The factory of a state folder. This process must be in its sandbox.
pub(crate) fn open(state: &Path, now: &Now) -> Result<Local, Failure> {
    let sandbox = Sandbox::current(state).map_err(|error| Failure::chain(2, &error))?;
    let store = Store::create(sandbox.state()).map_err(|error| failed(&error))?;
    let qemu_img = QemuImg::new(program(sandbox.qemu_root(), "qemu-img"));
    let clock = now.clone();
    let options = LocalOptions { clock: Arc::new(move || clock.as_ref()()), new_id: Arc::new(new_id), qemu_img };
    Ok(Local::new(store, Arc::new(sandbox), options))
}

fn new_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/uuid").unwrap_or_default().trim().to_owned()
}

/// Wrong arguments exit with 2, failures with 1.
pub(crate) fn failed(error: &Error) -> Failure {
    let code = match error.class() {
        ErrorClass::NotFound | ErrorClass::Invalid => 2,
        _ => 1,
    };
    Failure::chain(code, error)
}

/// The id of an image.
pub(crate) fn image_id(image: &ImageSource) -> String {
    let definition = |name: &DefinitionName| format!("/local/galleries/{}/images/{}", name.gallery, name.definition);
    match image {
        ImageSource::Other(id) => id.clone(),
        ImageSource::Definition(name) => definition(name),
        ImageSource::ExactVersion(name, number) => format!("{}/versions/{number}", definition(name)),
        ImageSource::Marketplace(image) => format!("{}:{}:{}", image.publisher, image.offer, image.sku),
    }
}
