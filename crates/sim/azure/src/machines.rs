//! The VMs as seen from outside the API, for code that simulates what runs on them.

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
use crate::world::resource::ProvisioningState;
use crate::world::vm::Power;

/// The current state of a VM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MachineView {
    /// Resource id in Azure's spelling.
    pub id: String,
    pub name: String,
    pub computer_name: String,
    /// The VM id in the firmware.
    pub vm_id: String,
    /// Address in the virtual network.
    pub address: Ipv4Addr,
    pub location: String,
    /// VM size, such as `Standard_D2s_v3`.
    pub size: String,
    /// The exact image version of its OS disk.
    pub image: Option<String>,
    /// Tags, including those of its scale set.
    pub tags: BTreeMap<String, String>,
    /// Labels of its node in addition to the common ones.
    pub node_labels: BTreeMap<String, String>,
    /// Taints of its node at registration.
    pub node_taints: Vec<Taint>,
    pub power: PowerView,
    /// The number of boots from this OS disk.
    pub boots: u32,
    /// The current or last boot.
    pub boot: Option<BootView>,
    /// Whether the last boot stage has ended.
    pub up: bool,
    /// Whether the VM is being deleted.
    pub deleting: bool,
    pub contents: Arc<Contents>,
    /// The custom data on its OS disk.
    pub custom_data: Option<SecretBytes>,
    /// Why the kubelet of this boot cannot join.
    pub cannot_join: Option<String>,
    /// Why its node does not become Ready.
    pub never_ready: Option<String>,
}

/// The power state of a VM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PowerView {
    /// On, or starting.
    On,
    /// Shutting down, after the guest was notified.
    Stopping,
    Off,
}

/// The current or last boot of a VM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BootView {
    pub started: Timestamp,
    /// Name and end of each stage.
    pub stages: Vec<(String, Timestamp)>,
    /// The number of the pool's images that were missing on the disk.
    pub images_to_pull: u32,
    /// The number of outdated packages.
    pub packages_behind: u32,
    /// Why the boot does not finish.
    pub hangs: Option<String>,
}

impl MachineView {
    /// Returns the `spec.providerID` that the cloud provider gives the Node.
    pub fn provider_id(&self) -> String {
        format!("azure://{}", self.id)
    }

    /// Returns the host name that the kubelet registers with. It is read from the disk, so a clone without identity reset has the donor's.
    /// Before its first boot a VM has the name from the platform.
    pub fn host_name(&self) -> &str {
        self.contents.host_name().filter(|_| self.boots > 0).unwrap_or(&self.computer_name)
    }

    /// Returns the name of the VM's node. The kubelet registers the host name in lower case.
    pub fn node_name(&self) -> String {
        self.host_name().to_ascii_lowercase()
    }
}

/// Lists all VMs in the order of their ids.
pub(crate) fn list(world: &World) -> Vec<MachineView> {
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
            deleting: resource.state == ProvisioningState::Deleting,
            contents: disk.map(|disk| disk.contents.clone()).unwrap_or_default(),
            custom_data: disk.and_then(|disk| disk.custom_data.as_ref()).map(|data| {
                // Custom data that is not base64 was never decoded by a guest.
                SecretBytes::new(STANDARD.decode(data).unwrap_or_else(|_| data.clone().into_bytes()))
            }),
            cannot_join: vm.cannot_join.clone(),
            never_ready: vm.never_ready.clone(),
        })
    });
    all.collect()
}
