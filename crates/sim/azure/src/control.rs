//! Changes that bypass the API: an autoscaler, another operator, passing time, pods that write to a disk.

use http::Method;
use jiff::SignedDuration;
use kiln_sim_store::JournalError;
use kiln_types::{FirstBootUnit, TokenId};
use serde_json::{Value, json};

use crate::arm::call::Call;
use crate::arm::error::ArmError;
use crate::arm::id::ResourceId;
use crate::arm::kind::ResourceKind;
use crate::arm::route;
use crate::sim::Sim;
use crate::world::World;
use crate::world::contents::Contents;
use crate::world::contents_spec::ContentsSpec;
use crate::world::pool::PoolSpec;
use crate::world::roles::Principal;

/// An error of changing the simulated environment.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    #[error("no VM `{0}` exists")]
    NoMachine(String),
    /// Azure would reject the change.
    #[error("`{target}`: {message} ({code})")]
    Refused { target: String, code: String, message: String },
    /// The change was made but could not be saved.
    #[error("cannot save the state: {0}")]
    Saving(#[from] JournalError),
}

impl Sim {
    /// Scales a pool, like an autoscaler.
    pub fn scale(&self, pool: &str, capacity: u32) -> Result<(), ControlError> {
        self.change_scale_set(pool, &json!({"sku": {"capacity": capacity}}))
    }

    /// Patches a scale set without `If-Match`, like a client that ignores concurrent changes.
    pub fn change_scale_set(&self, pool: &str, patch: &Value) -> Result<(), ControlError> {
        self.act(|world| {
            let id = ResourceId::new(
                &world.spec.subscription_id,
                &world.spec.resource_group,
                ResourceKind::ScaleSet,
                &[pool],
            );
            request(world, Method::PATCH, &id, patch)
        })
    }

    /// Deletes a VM.
    pub fn delete_machine(&self, machine: &str) -> Result<(), ControlError> {
        self.act(|world| {
            let key = find(world, machine)?;
            let id = world.resources.get(&key).map(|resource| resource.id.clone());
            let id = id.ok_or_else(|| ControlError::NoMachine(machine.to_owned()))?;
            request(world, Method::DELETE, &id, &json!({}))
        })
    }

    /// Revokes a bootstrap token.
    pub fn revoke_token(&self, token: TokenId) -> Result<(), ControlError> {
        self.act(|world| {
            world.meta.revoked_tokens.insert(token);
            Ok(())
        })
    }

    /// Installs the first-boot unit on the disk of a VM and records the VM as its owner. An existing unit is kept.
    pub fn install_first_boot(&self, machine: &str, version: &str) -> Result<(), ControlError> {
        self.act(|world| {
            let key = find(world, machine)?;
            let vm_id = world.resources.get(&key).and_then(|resource| resource.vm.as_ref()).map(|vm| vm.vm_id.clone());
            let recorded_vm_id = vm_id.ok_or_else(|| ControlError::NoMachine(machine.to_owned()))?;
            let unit = FirstBootUnit { recorded_vm_id, version: version.to_owned() };
            world.change_contents(&key, |contents| {
                contents.first_boot_unit.get_or_insert(unit);
            });
            Ok(())
        })
    }

    /// Installs all available updates on a VM and pulls the images of its pool.
    pub fn patch_machine(&self, machine: &str) -> Result<(), ControlError> {
        self.on_disk(machine, Contents::patch)
    }

    /// Changes the contents of a VM's disk.
    pub fn alter_machine(&self, machine: &str, change: &ContentsSpec) -> Result<(), ControlError> {
        self.on_disk(machine, |contents, pool| contents.overlay(change, pool))
    }

    /// Advances the clock of a simulation with speed `instant`.
    pub fn pass(&self, time: SignedDuration) -> Result<(), ControlError> {
        self.act(|world| {
            world.advance(Some(world.now + time));
            Ok(())
        })
    }

    fn on_disk(&self, machine: &str, change: impl FnOnce(&mut Contents, &PoolSpec)) -> Result<(), ControlError> {
        self.act(|world| {
            let key = find(world, machine)?;
            let spec = world.spec.clone();
            let nobodys = PoolSpec::named("");
            world.change_contents(&key, |contents| {
                let pool = spec.pools.iter().find(|pool| pool.name == contents.pool).unwrap_or(&nobodys);
                change(contents, pool);
            });
            Ok(())
        })
    }

    fn act(&self, change: impl FnOnce(&mut World) -> Result<(), ControlError>) -> Result<(), ControlError> {
        let mut state = self.lock_current();
        change(&mut state.world)?;
        Ok(Self::save(&mut state)?)
    }
}

/// Finds the key of a VM by VM id, resource id, VM name or computer name.
fn find(world: &World, machine: &str) -> Result<String, ControlError> {
    let key = machine.to_ascii_lowercase();
    let by_id = || {
        let mut all = world.resources.iter();
        all.find(|(_, resource)| resource.vm.as_ref().is_some_and(|vm| vm.vm_id == machine)).map(|(key, _)| key)
    };
    let by_key = world.resources.get(&key).filter(|resource| resource.vm.is_some()).map(|_| key.as_str());
    let found = by_key.or_else(|| world.machine_named(machine)).or_else(by_id);
    found.map(str::to_owned).ok_or_else(|| ControlError::NoMachine(machine.to_owned()))
}

fn request(world: &mut World, method: Method, id: &ResourceId, body: &Value) -> Result<(), ControlError> {
    let refused =
        |error: ArmError| ControlError::Refused { target: id.to_string(), code: error.code, message: error.message };
    let caller = Principal { actions: vec!["*".to_owned()], ..Principal::default() };
    let call = Call { method, body: body.as_object().cloned().unwrap_or_default(), caller, ..Call::default() };
    route::resource(world, &call, id).map(drop).map_err(refused)
}
