//! The factory of a world: its state folder, and the machines that run in it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use jiff::{SignedDuration, Timestamp};
use kiln_local::world::{World, program};
use kiln_local::{Error, LocalOptions, QemuImg, Store};
use kiln_types::{DefinitionName, ErrorClass, FactoryError as _, ImageSource};
use tokio::time::Instant;

use crate::failure::Failure;
use crate::prototype::connect::Now;

/// Where worlds keep pools, disks and images, unless told.
pub(crate) const STATE: &str = "/var/lib/kiln-local";

/// The variable that says so to every command in a world.
pub(crate) const VARIABLE: &str = "KILN_LOCAL";

/// Machines on this machine, in the world around this process.
pub(crate) type Local = kiln_local::Local<World>;

/// Which state folder.
#[derive(Debug, Clone, Args)]
pub(crate) struct State {
    /// Folder of pools, disks and images [env: `KILN_LOCAL`] [default: /var/lib/kiln-local]
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
}

impl State {
    pub(crate) fn folder(&self) -> PathBuf {
        let around = || std::env::var_os(VARIABLE).map(PathBuf::from);
        self.state.clone().or_else(around).unwrap_or_else(|| STATE.into())
    }

    pub(crate) fn open(&self, now: &Now) -> Result<Local, Failure> {
        open(&self.folder(), now)
    }
}

/// A clock that goes on from a time.
pub(crate) fn clock(begin: Timestamp) -> Now {
    let started = Instant::now();
    Arc::new(move || begin + SignedDuration::try_from(started.elapsed()).unwrap_or(SignedDuration::MAX))
}

/// The factory of a state folder, in the world around this process.
pub(crate) fn open(state: &Path, now: &Now) -> Result<Local, Failure> {
    let world = World::around(state).map_err(|error| Failure::chain(2, &error))?;
    let store = Store::create(world.state()).map_err(|error| failed(&error))?;
    let qemu_img = QemuImg::new(program(world.qemu_root(), "qemu-img"));
    let clock = now.clone();
    let options = LocalOptions { clock: Arc::new(move || clock.as_ref()()), new_id: Arc::new(new_id), qemu_img };
    Ok(Local::new(store, Arc::new(world), options))
}

/// The kernel makes them.
fn new_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/uuid").unwrap_or_default().trim().to_owned()
}

/// What was asked for wrongly is told apart from what went wrong.
pub(crate) fn failed(error: &Error) -> Failure {
    let code = match error.class() {
        ErrorClass::NotFound | ErrorClass::Invalid => 2,
        _ => 1,
    };
    Failure::chain(code, error)
}

/// Where the user data of a pool is kept: what its machines may read of the metadata service for as long as they live.
pub(crate) fn user_data(state: &Path, pool: &str) -> PathBuf {
    state.join("user-data").join(pool)
}

/// What an image is called here.
pub(crate) fn image_id(image: &ImageSource) -> String {
    let line = |line: &DefinitionName| format!("/local/galleries/{}/images/{}", line.gallery, line.definition);
    match image {
        ImageSource::Other(id) => id.clone(),
        ImageSource::Definition(found) => line(found),
        ImageSource::ExactVersion(found, number) => format!("{}/versions/{number}", line(found)),
        ImageSource::Marketplace(image) => format!("{}:{}:{}", image.publisher, image.offer, image.sku),
    }
}
