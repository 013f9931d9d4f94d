//! Single machines: a VM with its network interface and disk.

use std::collections::BTreeMap;

use kiln_types::{
    LAUNCH_DONE, LAUNCH_TAG, Machine, MachineName, MachineSpec, MachineState, Machines, OWNER_TAG, Provisioning, Tags,
};

use super::{Azure, COMPUTE, NETWORK};
use crate::arm::{Api, BadResourceId, Call, Error, Handle, OperationKind, ResourceId};
use crate::models::machine::{InterfacePut, MachinePut, Part};
use crate::models::patch::TagPatch;

/// Tag with the machine's name on each of its resources, so that the leftovers of an interrupted launch can be attributed.
const MACHINE_TAG: &str = "kiln-machine";

/// The ids of a machine's resources. They follow from its name, so that repeating an interrupted creation completes it instead of creating
/// a second machine.
struct Parts {
    vm: ResourceId,
    interface: ResourceId,
    disk: ResourceId,
}

impl Azure {
    fn parts(&self, name: &MachineName) -> Result<Parts, BadResourceId> {
        Ok(Parts {
            vm: self.scope.resource(COMPUTE, "virtualMachines", name.as_str())?,
            interface: self.scope.resource(NETWORK, "networkInterfaces", &format!("{name}-nic"))?,
            disk: self.scope.resource(COMPUTE, "disks", &format!("{name}-os"))?,
        })
    }

    async fn find_part(&self, id: &ResourceId, api: Api) -> Result<Option<Part>, Error> {
        self.arm.find(&Call::get(id.as_str(), api)).await
    }

    async fn delete_part(&self, id: &ResourceId, api: Api) -> Result<(), Error> {
        let handle = self.delete(id, api).await?;
        self.arm.settle(&handle).await
    }
}

impl Machines for Azure {
    type Error = Error;

    async fn create(&self, spec: &MachineSpec) -> Result<Machine, Error> {
        let parts = self.parts(&spec.name)?;
        let mut tags = spec.tags.clone();
        tags.insert(MACHINE_TAG.to_owned(), spec.name.as_str().to_owned());

        let handle = if let Some(vm) = self.find_part(&parts.vm, Api::Compute).await? {
            check_owner(&vm, &tags)?;
            // Custom data cannot be changed by a second PUT, so the running creation is awaited.
            Handle::watching(OperationKind::Write, parts.vm.as_str(), Api::Compute)
        } else {
            if let Some(interface) = self.find_part(&parts.interface, Api::Network).await? {
                check_owner(&interface, &tags)?;
            }
            let interface = self.put(&parts.interface, &InterfacePut::new(spec, &tags)).await?;
            self.arm.settle(&interface).await?;
            self.put(&parts.vm, &MachinePut::new(spec, &tags, parts.interface.as_str(), parts.disk.name())).await?
        };
        self.arm.settle(&handle).await?;
        self.describe(&spec.name)
            .await?
            .ok_or_else(|| Error::MissingField { resource: parts.vm.to_string(), field: "id" })
    }

    async fn confirm(&self, name: &MachineName) -> Result<(), Error> {
        let id = self.parts(name)?.vm;
        let vm: Part = self.arm.get(&Call::get(id.as_str(), Api::Compute)).await?;
        if vm.tags.get(LAUNCH_TAG).is_some_and(|word| word == LAUNCH_DONE) {
            return Ok(());
        }
        // A PATCH replaces all tags of this resource type.
        let patch = TagPatch::new(&vm.tags, &Tags::from([(LAUNCH_TAG.to_owned(), LAUNCH_DONE.to_owned())]));
        let handle =
            self.arm.begin(&Call::patch(id.as_str(), Api::Compute, &patch), OperationKind::Write, id.as_str()).await?;
        self.arm.settle(&handle).await
    }

    async fn describe(&self, name: &MachineName) -> Result<Option<Machine>, Error> {
        let parts = self.parts(name)?;
        let vm = self.find_part(&parts.vm, Api::Compute).await?;
        let interface = self.find_part(&parts.interface, Api::Network).await?;
        let disk = self.find_part(&parts.disk, Api::Disk).await?;
        Ok(assemble(name.clone(), vm, &[interface, disk].into_iter().flatten().collect::<Vec<_>>()))
    }

    async fn list(&self, tag: &str, value: &str) -> Result<Vec<Machine>, Error> {
        let mut machines: BTreeMap<MachineName, (Option<Part>, Vec<Part>)> = BTreeMap::new();
        for (provider, kind, api) in [
            (COMPUTE, "virtualMachines", Api::Compute),
            (NETWORK, "networkInterfaces", Api::Network),
            (COMPUTE, "disks", Api::Disk),
        ] {
            let parts: Vec<Part> = self.arm.list(&Call::get(self.scope.collection(provider, kind), api)).await?;
            for part in parts.into_iter().filter(|part| part.tags.get(tag).is_some_and(|v| v == value)) {
                // A resource with the tag but without a machine name was not created here and is ignored.
                let Some(name) = part.tags.get(MACHINE_TAG).and_then(|name| name.parse().ok()) else { continue };
                let (vm, others) = machines.entry(name).or_default();
                if kind == "virtualMachines" { *vm = Some(part) } else { others.push(part) }
            }
        }
        Ok(machines.into_iter().filter_map(|(name, (vm, others))| assemble(name, vm, &others)).collect())
    }

    async fn delete(&self, name: &MachineName) -> Result<(), Error> {
        let parts = self.parts(name)?;
        // The disk has the requested name, unless the VM reports another.
        let vm = self.find_part(&parts.vm, Api::Compute).await?;
        let disk = vm.as_ref().and_then(Part::os_disk).map_or(Ok(parts.disk), str::parse)?;
        self.delete_part(&parts.vm, Api::Compute).await?;
        // Azure deletes both with the VM. If the creation was interrupted there may be no VM.
        self.delete_part(&parts.interface, Api::Network).await?;
        self.delete_part(&disk, Api::Disk).await
    }

    async fn collect(&self, machine: &Machine, tag: &str, value: &str) -> Result<(), Error> {
        let is_ours = |part: &Part| {
            part.tags.get(tag).is_some_and(|v| v == value)
                && part.tags.get(MACHINE_TAG).is_some_and(|name| name == machine.name.as_str())
        };
        let mut own_disk = None;
        // Interface and disk can be deleted only after the VM. The list of resources starts with the VM.
        for id in &machine.parts {
            let id: ResourceId = id.parse()?;
            let api = match id.value_of("networkInterfaces") {
                Some(_) => Api::Network,
                None if id.value_of("disks").is_some() => Api::Disk,
                None => Api::Compute,
            };
            let Some(part) = self.find_part(&id, api).await? else { continue };
            // A disk that the VM lists as its OS disk needs no tag.
            if !is_ours(&part) && own_disk.as_ref() != Some(&id) {
                continue;
            }
            if let Some(disk) = part.os_disk() {
                own_disk = Some(disk.parse()?);
            }
            self.delete_part(&id, api).await?;
        }
        Ok(())
    }
}

/// Refuses to overwrite a resource that another owner created under the same name.
fn check_owner(part: &Part, tags: &Tags) -> Result<(), Error> {
    let same = |tag: &str| part.tags.get(tag) == tags.get(tag);
    if same(MACHINE_TAG) && same(OWNER_TAG) {
        return Ok(());
    }
    let found = match part.tags.get(OWNER_TAG) {
        Some(owner) => format!("a resource that belongs to `{owner}`"),
        None => "a resource that kiln did not create".to_owned(),
    };
    Err(Error::NameTaken { resource: part.id.clone(), found })
}

fn assemble(name: MachineName, vm: Option<Part>, others: &[Part]) -> Option<Machine> {
    let tags: Tags = vm.iter().chain(others).next()?.tags.clone();
    let mut parts: Vec<String> = vm.iter().chain(others).map(|part| part.id.clone()).collect();
    if let Some(disk) = vm.as_ref().and_then(Part::os_disk)
        && !parts.iter().any(|part| part.eq_ignore_ascii_case(disk))
    {
        parts.push(disk.to_owned());
    }
    let state = vm.map_or(MachineState::Fragment, |vm| MachineState::Present {
        provisioning: Provisioning::from_name(vm.properties.provisioning_state.as_deref()),
        vm_id: vm.properties.vm_id,
    });
    Some(Machine { name, state, parts, tags })
}
