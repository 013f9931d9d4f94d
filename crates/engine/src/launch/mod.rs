//! Launching single machines: choosing the image, creating the machine, and collecting abandoned parts.
//!
//! Each part of a machine is tagged with its owner and with the start of its launch. Once the launching process has seen the machine, the
//! start is replaced by a fixed value. A part that still has the start long afterwards was abandoned, and `collect` removes it.

mod collect;
mod image;

pub use collect::{ABANDONED_AFTER, Collected, LaunchState, Leftover, collect, leftovers};
pub use image::{ChooseError, Chosen, choose};

use jiff::Timestamp;
use kiln_bootstrap::launch::{self, LaunchError, Template};
use kiln_bootstrap::{Bootstrapper, Resolved};
use kiln_types::{LAUNCH_TAG, Machine, MachineName, Machines, OWNER_TAG, Secret};

/// Receives the progress of a launch.
pub trait Observer: Send + Sync {
    /// Called when a step begins.
    fn begins(&self, what: &str);
}

/// Ignores the progress.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unobserved;

impl Observer for Unobserved {
    fn begins(&self, _what: &str) {}
}

/// Why a machine is not created.
#[derive(Debug, thiserror::Error)]
pub enum Error<E: std::error::Error + 'static> {
    #[error(transparent)]
    Inputs(#[from] LaunchError),
    #[error("`clusterName` is not set: machines are tagged with it, so that they can be found again")]
    NoOwner,
    #[error(transparent)]
    Cloud(E),
    #[error("machine `{name}` belongs to {}", .owner.as_ref().map_or_else(|| "an unknown owner".to_owned(), |owner| format!("`{owner}`")))]
    OtherOwner { name: MachineName, owner: Option<String> },
}

/// The owner of machines with these inputs: the cluster.
pub fn owner<E: std::error::Error + 'static>(inputs: &Resolved) -> Result<String, Error<E>> {
    Some(inputs.text("clusterName").to_owned()).filter(|name| !name.is_empty()).ok_or(Error::NoOwner)
}

/// The launch template for these inputs and an image.
pub fn template(inputs: &Resolved, bootstrapper: &dyn Bootstrapper, image: &str) -> Result<Template, LaunchError> {
    launch::template_with_image(inputs, bootstrapper, image)
}

/// Creates a machine from a template, or completes an interrupted creation.
pub async fn create<M: Machines>(
    machines: &M,
    inputs: &Resolved,
    template: &Template,
    name: MachineName,
    now: Timestamp,
    observer: &dyn Observer,
) -> Result<Machine, Error<M::Error>> {
    owner::<M::Error>(inputs)?;
    let mut spec = launch::machine(inputs, template, name)?;
    // Custom data that does not decode would give a machine without any.
    debug_assert!(!spec.custom_data.expose().is_empty() || template.custom_data.expose().is_empty());
    // Whole seconds, for people.
    let begun = Timestamp::from_second(now.as_second()).unwrap_or(now);
    spec.tags.insert(LAUNCH_TAG.to_owned(), begun.to_string());
    observer.begins(&format!("{}: creating a machine of size {} from {}", spec.name, spec.size, spec.image));
    machines.create(&spec).await.map_err(Error::Cloud)?;
    // The secret is no longer needed.
    spec.custom_data = Secret::new("");
    observer.begins(&format!("{}: exists; tagging it as complete", spec.name));
    machines.confirm(&spec.name).await.map_err(Error::Cloud)?;
    let created = machines.describe(&spec.name).await.map_err(Error::Cloud)?;
    created.ok_or(Error::OtherOwner { name: spec.name, owner: None })
}

/// Lists the machines of an owner, and the parts of incomplete ones.
pub async fn list<M: Machines>(machines: &M, owner: &str) -> Result<Vec<Machine>, M::Error> {
    machines.list(OWNER_TAG, owner).await
}

/// Deletes a machine of this owner with all its parts. Returns `false` if it does not exist, and fails if it has another owner.
pub async fn delete<M: Machines>(machines: &M, owner: &str, name: &MachineName) -> Result<bool, Error<M::Error>> {
    let Some(machine) = machines.describe(name).await.map_err(Error::Cloud)? else { return Ok(false) };
    let found = machine.tags.get(OWNER_TAG);
    if found.map(String::as_str) != Some(owner) {
        return Err(Error::OtherOwner { name: name.clone(), owner: found.cloned() });
    }
    machines.collect(&machine, OWNER_TAG, owner).await.map_err(Error::Cloud)?;
    Ok(true)
}
