//! Single machines from a launch template: which image, how they are made, and what is done about those that nobody finished.
//!
//! Each part of a machine carries its owner's tag and the time at which its launch began. Once the maker knows of the machine, that time
//! is replaced by a word; whatever still has the time long after was left by a maker that is gone, and is collected.

mod collect;
mod image;

pub use collect::{Collected, Fate, Leftover, PATIENCE, collect, leftovers};
pub use image::{ChooseError, Chosen, choose};

use jiff::Timestamp;
use kiln_bootstrap::launch::{self, LaunchError, Template};
use kiln_bootstrap::{Bootstrapper, Resolved};
use kiln_types::{LAUNCH_TAG, Machine, MachineName, Machines, OWNER_TAG, Secret};

/// What a launch says on its way.
pub trait Observer: Send + Sync {
    /// A step begins.
    fn begins(&self, what: &str);
}

/// Nobody listens.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unobserved;

impl Observer for Unobserved {
    fn begins(&self, _what: &str) {}
}

/// A machine that is not made.
#[derive(Debug, thiserror::Error)]
pub enum Error<E: std::error::Error + 'static> {
    /// The inputs make no machine.
    #[error(transparent)]
    Inputs(#[from] LaunchError),
    /// Without an owner nobody could find again what is left of it.
    #[error("nobody set `clusterName`: what is made carries it, so that it can be found again")]
    NoOwner,
    /// The cloud does not do it.
    #[error(transparent)]
    Cloud(E),
    /// The machine is another's.
    #[error("machine `{name}` belongs to {}", .owner.as_ref().map_or_else(|| "nobody that is known here".to_owned(), |owner| format!("`{owner}`")))]
    Another {
        name: MachineName,
        /// Whose it is.
        owner: Option<String>,
    },
}

/// The owner of what these inputs make: the cluster.
pub fn owner<E: std::error::Error + 'static>(inputs: &Resolved) -> Result<String, Error<E>> {
    Some(inputs.text("clusterName").to_owned()).filter(|name| !name.is_empty()).ok_or(Error::NoOwner)
}

/// The template of these inputs, for an image that was chosen.
pub fn template(inputs: &Resolved, bootstrapper: &dyn Bootstrapper, image: &str) -> Result<Template, LaunchError> {
    launch::template_of(inputs, bootstrapper, image)
}

/// Makes a machine from a template, or completes one that was begun. It is there and known when this returns.
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
    // A text that is no text would be a machine without custom data.
    debug_assert!(!spec.custom_data.expose().is_empty() || template.custom_data.expose().is_empty());
    // Whole seconds: people read it.
    let begun = Timestamp::from_second(now.as_second()).unwrap_or(now);
    spec.tags.insert(LAUNCH_TAG.to_owned(), begun.to_string());
    observer.begins(&format!("{}: interface and machine of size {} from {}", spec.name, spec.size, spec.image));
    machines.create(&spec).await.map_err(Error::Cloud)?;
    // The secret is not needed any more.
    spec.custom_data = Secret::new("");
    observer.begins(&format!("{}: is there; marks it as known", spec.name));
    machines.confirm(&spec.name).await.map_err(Error::Cloud)?;
    let made = machines.describe(&spec.name).await.map_err(Error::Cloud)?;
    made.ok_or(Error::Another { name: spec.name, owner: None })
}

/// All machines of an owner, and what is left of those that were begun.
pub async fn list<M: Machines>(machines: &M, owner: &str) -> Result<Vec<Machine>, M::Error> {
    machines.list(OWNER_TAG, owner).await
}

/// Deletes a machine of this owner with all its parts. One that is not there is deleted already; another's is refused.
pub async fn delete<M: Machines>(machines: &M, owner: &str, name: &MachineName) -> Result<bool, Error<M::Error>> {
    let Some(machine) = machines.describe(name).await.map_err(Error::Cloud)? else { return Ok(false) };
    let theirs = machine.tags.get(OWNER_TAG);
    if theirs.map(String::as_str) != Some(owner) {
        return Err(Error::Another { name: name.clone(), owner: theirs.cloned() });
    }
    machines.collect(&machine, OWNER_TAG, owner).await.map_err(Error::Cloud)?;
    Ok(true)
}
