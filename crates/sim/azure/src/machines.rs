//! The machines of a world as somebody sees them who stands in the room: for whoever plays what runs on them.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use kiln_types::SecretBytes;
use serde_json::Value;

use crate::world::World;
use crate::world::contents::Contents;
use crate::world::pool::Taint;
use crate::world::resource::State;
use crate::world::vm::Power;

/// A machine as it is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineView {
    /// Its resource id, as Azure spells it.
    pub id: String,
    /// Its name in Azure.
    pub name: String,
    /// Its host name.
    pub computer_name: String,
    /// The id that its firmware shows.
    pub vm_id: String,
    /// Its address in the virtual network.
    pub address: Ipv4Addr,
    /// Where it is.
    pub location: String,
    /// Its size, `Standard_D2s_v3`.
    pub size: String,
    /// The image that its OS disk was made from, to the exact version.
    pub image: Option<String>,
    /// Tags, with those of its scale set.
    pub tags: BTreeMap<String, String>,
    /// Labels that its node registers with, besides those that every node has.
    pub node_labels: BTreeMap<String, String>,
    /// Taints that its node registers with.
    pub node_taints: Vec<Taint>,
    /// Whether there is power.
    pub power: PowerView,
    /// How often it was booted from this OS disk.
    pub boots: u32,
    /// The boot under way or done: its start and the stages with their ends.
    pub boot: Option<BootView>,
    /// The last stage has ended.
    pub up: bool,
    /// It is on its way out.
    pub deleting: bool,
    /// What is on its OS disk.
    pub contents: Arc<Contents>,
    /// The custom data that lie on its OS disk.
    pub custom_data: Option<SecretBytes>,
    /// Why the kubelet of this boot does not get in, if it does not.
    pub cannot_join: Option<String>,
    /// Why its node does not become Ready, if it does not.
    pub never_ready: Option<String>,
}

/// Power of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PowerView {
    /// On, or being switched on.
    On,
    /// Told to stop: what runs on it has been told too.
    Stopping,
    /// Off.
    Off,
}

/// A boot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BootView {
    /// When power came.
    pub started: Timestamp,
    /// Name and end of each stage.
    pub stages: Vec<(String, Timestamp)>,
    /// Images of its pool that were not on the disk.
    pub images_to_pull: u32,
    /// Packages that had a newer version.
    pub packages_behind: u32,
    /// Why it does not come to its end, if it does not.
    pub hangs: Option<String>,
}

impl MachineView {
    /// What a cloud provider writes into a Node's `spec.providerID`.
    pub fn provider_id(&self) -> String {
        format!("azure://{}", self.id)
    }

    /// The host name that its kubelet registers under: what the disk says, which on a copy that nobody cleaned is the donor's. Before
    /// its first boot a machine has the name that the platform gave it.
    pub fn host_name(&self) -> &str {
        self.contents.host_name().filter(|_| self.boots > 0).unwrap_or(&self.computer_name)
    }
}

/// All machines, in the order of their ids.
pub(crate) fn of(world: &World) -> Vec<MachineView> {
    let all = world.resources.iter().filter_map(|(_, resource)| {
        let vm = resource.vm.as_ref()?;
        let parent = resource.id.parent().and_then(|parent| world.resources.get(&parent.key()));
        let text = |path: &str| {
            let own = resource.text(path);
            own.or_else(|| parent.and_then(|parent| parent.text(path))).unwrap_or_default().to_owned()
        };
        let size = match resource.text("properties.hardwareProfile.vmSize") {
            Some(size) => size.to_owned(),
            None => text("sku.name"),
        };
        let pool = parent.and_then(|parent| world.spec.pools.iter().find(|pool| pool.name == parent.id.name()));
        let disk = resource.text("properties.storageProfile.osDisk.managedDisk.id").map(str::to_ascii_lowercase);
        let disk = disk.and_then(|key| world.resources.get(&key)).and_then(|disk| disk.disk.as_ref());
        let tags = [parent.and_then(|parent| parent.at("tags")), resource.at("tags")];
        Some(MachineView {
            id: resource.id.to_string(),
            name: vm.name.clone(),
            computer_name: vm.computer_name.clone(),
            vm_id: vm.vm_id.clone(),
            address: vm.address,
            location: text("location"),
            size,
            image: vm.image.clone(),
            tags: tags
                .into_iter()
                .flatten()
                .filter_map(Value::as_object)
                .flatten()
                .map(|(key, value)| (key.clone(), value.as_str().unwrap_or_default().to_owned()))
                .collect(),
            node_labels: pool.map(|pool| pool.node_labels.clone()).unwrap_or_default(),
            node_taints: pool.map(|pool| pool.node_taints.clone()).unwrap_or_default(),
            power: match vm.power {
                Power::Starting | Power::Running => PowerView::On,
                Power::Stopping | Power::Deallocating => PowerView::Stopping,
                Power::Stopped | Power::Deallocated => PowerView::Off,
            },
            boots: vm.boots,
            boot: vm.boot.as_ref().map(|boot| BootView {
                started: boot.started,
                stages: boot.stages.clone(),
                images_to_pull: boot.images_to_pull,
                packages_behind: boot.packages_behind,
                hangs: boot.hangs.clone(),
            }),
            up: vm.is_up(world.now),
            deleting: resource.state == State::Deleting,
            contents: disk.map(|disk| disk.contents.clone()).unwrap_or_default(),
            custom_data: disk.and_then(|disk| disk.custom_data.as_ref()).map(|data| {
                // What is no base64 was never decoded by anybody.
                SecretBytes::new(STANDARD.decode(data).unwrap_or_else(|_| data.clone().into_bytes()))
            }),
            cannot_join: vm.cannot_join.clone(),
            never_ready: vm.never_ready.clone(),
        })
    });
    all.collect()
}
