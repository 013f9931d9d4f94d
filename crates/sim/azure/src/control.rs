//! What happens to a world behind the backs of its clients: somebody else's changes, time that passes, pods that write to a disk.

use http::Method;
use jiff::SignedDuration;
use kiln_sim_store::JournalError;
use kiln_types::{FirstBootUnit, TokenId};
use serde_json::{Value, json};

use crate::arm::call::Call;
use crate::arm::error::ArmError;
use crate::arm::id::ResourceId;
use crate::arm::kind::Kind;
use crate::arm::route;
use crate::sim::Sim;
use crate::world::World;
use crate::world::contents::Contents;
use crate::world::contents_spec::ContentsSpec;
use crate::world::pool::PoolSpec;
use crate::world::roles::Principal;

/// Why something could not be done to a world.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// There is no such machine.
    #[error("the world has no machine `{0}`")]
    NoMachine(String),
    /// Azure would refuse it, whoever asks.
    #[error("`{target}`: {message} ({code})")]
    Refused {
        target: String,
        /// Azure's code.
        code: String,
        /// Azure's sentence.
        message: String,
    },
    /// It was done and could not be written down.
    #[error("the world could not be saved: {0}")]
    Saving(#[from] JournalError),
}

impl Sim {
    /// Scales a pool as an autoscaler does.
    pub fn scale(&self, pool: &str, capacity: u32) -> Result<(), ControlError> {
        self.change_scale_set(pool, &json!({"sku": {"capacity": capacity}}))
    }

    /// Changes a scale set's model by a PATCH without `If-Match`, as somebody does who does not know of us.
    pub fn change_scale_set(&self, pool: &str, patch: &Value) -> Result<(), ControlError> {
        self.act(|world| {
            let id = ResourceId::new(&world.spec.subscription_id, &world.spec.resource_group, Kind::ScaleSet, &[pool]);
            request(world, Method::PATCH, &id, patch)
        })
    }

    /// Deletes a machine.
    pub fn delete_machine(&self, machine: &str) -> Result<(), ControlError> {
        self.act(|world| {
            let key = find(world, machine)?;
            let id = world.resources.get(&key).map(|resource| resource.id.clone());
            let id = id.ok_or_else(|| ControlError::NoMachine(machine.to_owned()))?;
            request(world, Method::DELETE, &id, &json!({}))
        })
    }

    /// Lets nobody in any more who comes with this token.
    pub fn revoke_token(&self, token: TokenId) -> Result<(), ControlError> {
        self.act(|world| {
            world.meta.revoked_tokens.insert(token);
            Ok(())
        })
    }

    /// Puts the first-boot unit on a machine's disk, recorded for that machine, and touches nothing else. One that is there stays.
    pub fn install_first_boot(&self, machine: &str, version: &str) -> Result<(), ControlError> {
        self.act(|world| {
            let key = find(world, machine)?;
            let vm_id = world.resources.get(&key).and_then(|resource| resource.vm.as_ref()).map(|vm| vm.vm_id.clone());
            let recorded_vm_id = vm_id.ok_or_else(|| ControlError::NoMachine(machine.to_owned()))?;
            let unit = FirstBootUnit { recorded_vm_id, version: version.to_owned() };
            world.alter(&key, |contents| {
                contents.first_boot_unit.get_or_insert(unit);
            });
            Ok(())
        })
    }

    /// Installs on a machine what the distribution offers, and has its pool's images pulled.
    pub fn patch_machine(&self, machine: &str) -> Result<(), ControlError> {
        self.on_disk(machine, Contents::patch)
    }

    /// Changes what is on a machine's disk.
    pub fn alter_machine(&self, machine: &str, change: &ContentsSpec) -> Result<(), ControlError> {
        self.on_disk(machine, |contents, pool| contents.overlay(change, pool))
    }

    /// Lets time pass in an instant world, where else only events move it.
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
            world.alter(&key, |contents| {
                let pool = spec.pools.iter().find(|pool| pool.name == contents.pool).unwrap_or(&nobodys);
                change(contents, pool);
            });
            Ok(())
        })
    }

    fn act(&self, what: impl FnOnce(&mut World) -> Result<(), ControlError>) -> Result<(), ControlError> {
        let mut state = self.turn();
        what(&mut state.world)?;
        Ok(Self::save(&mut state)?)
    }
}

/// The key of a machine that is told by VM id, resource id, VM name or computer name.
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
