//! Machines outside of pools.

use kiln_types::{
    LAUNCH_DONE, LAUNCH_TAG, Machine, MachineName, MachineSpec, MachineState, Machines, OWNER_TAG, Protection,
    Provisioning,
};

use super::reconcile::{Numbers, Resolved};
use super::{Local, State};
use crate::error::Error;
use crate::ids;
use crate::records::{MachineRecord, StoredSecret, StoredUserData};
use crate::runner::{MachineKey, MachineRunner};
use crate::size::Size;
use crate::store::LockedStore;

impl State {
    /// Records a machine with its disk. A machine with the same name and another owner is an error.
    fn launch(&self, store: &LockedStore<'_>, spec: &MachineSpec) -> Result<(), Error> {
        let name = MachineKey::of_machine(&spec.name);
        if let Some(found) = store.find::<MachineRecord>(name.as_str())? {
            if found.tags.get(OWNER_TAG) == spec.tags.get(OWNER_TAG) {
                return Ok(());
            }
            let owner = found.tags.get(OWNER_TAG).map_or("an unknown owner", String::as_str);
            let existing = format!("it belongs to `{owner}`");
            return Err(Error::AlreadyExists { noun: "machine", name: name.to_string(), existing });
        }
        let size: Size = spec.size.parse()?;
        let Resolved { image, kind, chain } = Self::resolve(store, &ids::parse_image(&spec.image)?)?;
        store.put(&MachineRecord {
            name,
            revision: 1,
            membership: None,
            computer_name: spec.name.to_string(),
            vm_id: (self.options.new_id)(),
            kind,
            number: Numbers::read(store)?.take()?,
            size,
            disk: self.layers.fresh(store, kind, chain, self.new_layer()?)?,
            image,
            custom_data: Some(StoredSecret(spec.custom_data.clone())),
            user_data: StoredUserData::default(),
            protection: Protection::NONE,
            tags: spec.tags.clone(),
            on: true,
            deallocated: false,
            provisioned: false,
        })
    }
}

impl<P: MachineRunner> Machines for Local<P> {
    type Error = Error;

    async fn create(&self, spec: &MachineSpec) -> Result<Machine, Error> {
        let wanted = spec.clone();
        // An interrupted creation may have left a layer.
        self.locked_then_swept(move |state, store| state.launch(store, &wanted)).await?;
        self.start_machine(&MachineKey::of_machine(&spec.name)).await?;
        self.describe(&spec.name).await?.ok_or_else(|| Error::unknown("machine", &spec.name))
    }

    async fn confirm(&self, name: &MachineName) -> Result<(), Error> {
        let key = MachineKey::of_machine(name);
        self.locked(move |_, store| {
            let mut machine: MachineRecord = store.get(key.as_str())?;
            if machine.tags.get(LAUNCH_TAG).is_some_and(|word| word == LAUNCH_DONE) {
                return Ok(());
            }
            machine.tags.insert(LAUNCH_TAG.to_owned(), LAUNCH_DONE.to_owned());
            machine.revision += 1;
            store.put(&machine)
        })
        .await
    }

    async fn describe(&self, name: &MachineName) -> Result<Option<Machine>, Error> {
        let key = MachineKey::of_machine(name);
        let found = self.locked(move |_, store| store.find::<MachineRecord>(key.as_str())).await?;
        Ok(found.and_then(to_machine))
    }

    async fn list(&self, tag: &str, value: &str) -> Result<Vec<Machine>, Error> {
        let mut machines = self.locked(|_, store| store.list::<MachineRecord>()).await?;
        machines.retain(|machine| machine.membership.is_none() && machine.tags.get(tag).is_some_and(|v| v == value));
        Ok(machines.into_iter().filter_map(to_machine).collect())
    }

    async fn delete(&self, name: &MachineName) -> Result<(), Error> {
        self.remove_machine(&MachineKey::of_machine(name)).await
    }

    async fn collect(&self, machine: &Machine, tag: &str, value: &str) -> Result<(), Error> {
        let Some(now) = self.describe(&machine.name).await? else { return Ok(()) };
        let vm_id = |machine: &Machine| match &machine.state {
            MachineState::Present { vm_id, .. } => vm_id.clone(),
            MachineState::Fragment => None,
        };
        // A machine with the same name and another VM id is a new machine.
        if now.tags.get(tag).is_none_or(|v| v != value) || vm_id(&now) != vm_id(machine) {
            return Ok(());
        }
        self.delete(&machine.name).await
    }
}

/// A local machine and its disk are one document, so fragments cannot exist.
fn to_machine(machine: MachineRecord) -> Option<Machine> {
    let provisioning =
        if machine.provisioned { Provisioning::Succeeded } else { Provisioning::InProgress("Creating".to_owned()) };
    Some(Machine {
        name: machine.name.as_str().parse().ok().filter(|_| machine.membership.is_none())?,
        state: MachineState::Present { provisioning, vm_id: Some(machine.vm_id) },
        parts: ids::part_ids(&machine.name),
        tags: machine.tags,
    })
}
