//! The effect of a boot on a disk: the recipe of a new VM, the first-boot unit of a clone, and whether the kubelet can join.

use std::collections::BTreeSet;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kiln_node_plan::{IDENTITY, Treatment};
use kiln_sim_store::Ids;
use kiln_types::{
    Ancestor, CustomData, FstabEntry, JoinCredential, KeepOrDrop, RefuseReason, SecretBytes, TokenId, clone_credential,
};

use super::World;
use super::contents::{Contents, Disk, default_credential};
use super::contents_spec::Defect;
use super::pool::{DocumentSource, PoolSpec};
use super::profile::{Profile, StageCondition};

/// The booting VM.
pub(crate) struct Machine<'a> {
    pub(crate) vm_id: &'a str,
    /// The name from the platform.
    pub(crate) computer_name: &'a str,
    /// The image of its disk.
    pub(crate) image: &'a str,
    /// Whether this is the first boot from this disk.
    pub(crate) first: bool,
    /// In base64.
    pub(crate) custom_data: Option<&'a str>,
    /// In base64.
    pub(crate) user_data: Option<&'a str>,
    /// Why it has no outbound access.
    pub(crate) no_outbound: Option<String>,
    /// Whether a Custom Script extension runs at first boot.
    pub(crate) script: bool,
    /// The pool of the world file that the disk was created for.
    pub(crate) pool: Option<&'a PoolSpec>,
    pub(crate) revoked: &'a BTreeSet<TokenId>,
    pub(crate) profile: &'a Profile,
}

/// The result of a boot.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct BootResult {
    /// Custom data with effects is processed.
    pub(crate) custom_data: bool,
    /// A Custom Script extension runs.
    pub(crate) script: bool,
    /// The number of the pool's images that are missing on the disk.
    pub(crate) images_to_pull: u32,
    /// The number of outdated packages.
    pub(crate) packages_behind: u32,
    /// Why the kubelet cannot join.
    pub(crate) cannot_join: Option<String>,
    /// Why the node does not become Ready.
    pub(crate) never_ready: Option<String>,
    /// Why the boot does not finish.
    pub(crate) hangs: Option<String>,
}

/// Boots a VM from a disk.
pub(crate) fn boot(disk: &mut Disk, machine: &Machine<'_>) -> BootResult {
    let custom_data = machine.custom_data.filter(|data| machine.first && has_effect(data));
    let script = machine.first && machine.script;
    let contents = disk.change();
    contents.logs += 1;
    contents.reboot_required = None;
    if let Some(newest) = contents.installed_kernels.pop() {
        contents.kernel = newest;
        contents.installed_kernels.clear();
    }
    if contents.owner.is_empty() {
        first_boot(contents, machine);
    } else if contents.owner != machine.vm_id {
        contents.defects = contents.defects.iter().map(|defect| defect.for_clone()).collect();
        if contents.fstab.iter().any(FstabEntry::holds_up_a_clone) {
            contents.defects.insert(Defect::MountMissing);
        }
        if contents.first_boot_unit.as_ref().is_some_and(|unit| unit.recorded_vm_id != machine.vm_id) {
            reset_identity(contents, machine);
        }
    }
    let document = machine.pool.and_then(PoolSpec::document);
    let user_data = machine.user_data.filter(|data| document == Some(DocumentSource::UserData) && has_effect(data));
    let recipe = custom_data.is_some() || script || user_data.is_some();
    if recipe {
        let brought = machine.pool.and_then(|pool| pool.contents.join_credential.clone());
        contents.join_credential = Some(brought.unwrap_or_else(default_credential));
    }
    if let Some(data) = custom_data {
        let bytes = SecretBytes::new(STANDARD.decode(data).unwrap_or_else(|_| data.as_bytes().to_vec()));
        contents.custom_data = CustomData::found(bytes).without_bytes();
    }
    let (images_to_pull, packages_behind) =
        machine.pool.map_or((0, 0), |pool| (contents.missing_images(pool), contents.outdated_packages(pool)));
    if let Some(pool) = machine.pool {
        install_updates(contents, pool, machine.profile);
    }
    let has_document = match document {
        Some(DocumentSource::UserData) => user_data.is_some(),
        // The copy on the disk, which a clone removes before it looks for its own.
        Some(DocumentSource::CustomData) => contents.custom_data.present(),
        None => true,
    };
    let cannot_join = check_join(contents, recipe, has_document, machine.revoked).err();
    let cannot_join = machine.no_outbound.clone().or(cannot_join);
    contents.joined |= cannot_join.is_none();
    let never_ready = contents
        .defects
        .contains(&Defect::NeverReady)
        .then(|| "the disk has a defect: kubelet never becomes ready".to_owned());
    let hangs = hang_reason(contents);
    if let Some(data) = custom_data {
        disk.custom_data = Some(data.to_owned());
    } else if !disk.contents.custom_data.present() {
        disk.custom_data = None;
    }
    BootResult {
        custom_data: custom_data.is_some(),
        script,
        images_to_pull,
        packages_behind,
        cannot_join,
        never_ready,
        hangs,
    }
}

/// Returns why a boot from this disk does not finish.
fn hang_reason(contents: &Contents) -> Option<String> {
    if contents.defects.contains(&Defect::NeverBoots) {
        return Some("the disk has a defect: no boot finishes".to_owned());
    }
    let missing = contents.fstab.iter().find(|entry| entry.holds_up_a_clone());
    let missing = missing.filter(|_| contents.defects.contains(&Defect::MountMissing))?;
    Some(format!("`{}` is missing for `{}`: emergency mode", missing.device, missing.mount_point))
}

/// Custom data that consists of comments has no effect: kamino's is `#cloud-config` and a newline.
fn has_effect(data: &str) -> bool {
    let Ok(bytes) = STANDARD.decode(data) else { return true };
    let text = String::from_utf8_lossy(&bytes);
    let idle = |line: &str| line.trim().is_empty() || (line.starts_with('#') && !line.starts_with("#!"));
    !text.lines().all(idle)
}

/// The first boot from a new disk.
fn first_boot(contents: &mut Contents, machine: &Machine<'_>) {
    machine.vm_id.clone_into(&mut contents.owner);
    for item in IDENTITY {
        contents.identity.insert(item.name.to_owned(), identity_value(item.name, machine));
    }
    if let Some(unit) = &mut contents.first_boot_unit {
        machine.vm_id.clone_into(&mut unit.recorded_vm_id);
    }
}

/// The effect of the first-boot unit on a clone.
fn reset_identity(contents: &mut Contents, machine: &Machine<'_>) {
    for item in IDENTITY {
        match item.treatment {
            Treatment::Keep => {}
            Treatment::Remove => {
                contents.identity.remove(item.name);
            }
            Treatment::Reset | Treatment::Edit => {
                contents.identity.insert(item.name.to_owned(), identity_value(item.name, machine));
            }
        }
    }
    // It was part of cloud-init's state.
    contents.custom_data = CustomData::absent();
    match contents.join_credential.as_ref().map(clone_credential) {
        Some(Ok(KeepOrDrop::Drop { renewed_by })) => {
            let token_id = fresh_token(machine.vm_id);
            contents.join_credential =
                token_id.map(|token_id| JoinCredential::BootstrapToken { token_id, renewed_by: Some(renewed_by) });
        }
        // Only the recipe brings another one.
        Some(Err(RefuseReason::NodeCertificate { .. })) => contents.join_credential = None,
        _ => {}
    }
    contents.joined = false;
    machine.vm_id.clone_into(&mut contents.owner);
    contents.ancestry.push(Ancestor { image_version: machine.image.to_owned(), run: None });
    if let Some(unit) = &mut contents.first_boot_unit {
        machine.vm_id.clone_into(&mut unit.recorded_vm_id);
    }
}

/// Installs updates and pulls missing images, if the profile has boot stages for that.
fn install_updates(contents: &mut Contents, pool: &PoolSpec, profile: &Profile) {
    let has = |when| profile.boot.iter().any(|stage| stage.when == when);
    let (images, packages) = (has(StageCondition::Images), has(StageCondition::Packages));
    if images {
        contents.cached_images.extend(pool.images.iter().cloned());
    }
    if packages {
        contents.packages.extend(pool.updates.packages.clone());
        if let Some(kernel) = &pool.updates.kernel {
            contents.kernel.clone_from(kernel);
        }
    }
}

/// Checks whether the kubelet can join with the credentials on the disk.
fn check_join(
    contents: &Contents,
    recipe: bool,
    has_document: bool,
    revoked: &BTreeSet<TokenId>,
) -> Result<(), String> {
    if contents.joined {
        return Ok(());
    }
    if !has_document {
        return Err("no NodeConfig found: neither the custom data nor the user data has one".to_owned());
    }
    match &contents.join_credential {
        None => Err("the disk has no join credential: no custom data, user data or script wrote one".to_owned()),
        Some(JoinCredential::BootstrapToken { token_id, .. }) if revoked.contains(token_id) => {
            Err(format!("bootstrap token `{token_id}` is revoked"))
        }
        // A recipe writes a valid credential even if its kind cannot be recognized.
        Some(JoinCredential::Unknown { why }) if !recipe => Err(format!("unknown kind of join credential: {why}")),
        Some(_) => Ok(()),
    }
}

/// The value of an identity item on a VM. It is stable for one VM and differs between VMs.
fn identity_value(item: &str, machine: &Machine<'_>) -> String {
    match item {
        "host-name" => machine.computer_name.to_owned(),
        "machine-id" => derived_id(item, machine.vm_id).replace('-', ""),
        _ => derived_id(item, machine.vm_id),
    }
}

fn derived_id(what: &str, vm_id: &str) -> String {
    Ids::from_name(&format!("{what} {vm_id}")).uuid()
}

/// The id of the bootstrap token that a token renewal service would give a new VM.
fn fresh_token(vm_id: &str) -> Option<TokenId> {
    derived_id("bootstrap-token", vm_id).get(..6).and_then(|id| id.parse().ok())
}

impl World {
    /// Computes the next boot of a VM: the key of its disk, the disk afterwards, and the result.
    pub(crate) fn boot(&self, key: &str) -> Option<(String, Disk, BootResult)> {
        let resource = self.resources.get(key)?;
        let vm = resource.vm.as_ref()?;
        let disk_key = resource.text("properties.storageProfile.osDisk.managedDisk.id")?.to_ascii_lowercase();
        let mut disk = self.resources.get(&disk_key)?.disk.clone()?;
        let machine = Machine {
            vm_id: &vm.vm_id,
            computer_name: &vm.computer_name,
            image: vm.image.as_deref().unwrap_or_default(),
            first: vm.boots == 0,
            custom_data: vm.custom_data.as_deref(),
            user_data: vm.user_data.as_deref(),
            no_outbound: self.missing_outbound(resource),
            script: vm.script,
            pool: self.pool(&disk.contents.pool),
            revoked: &self.meta.revoked_tokens,
            profile: &self.spec.profile,
        };
        let result = boot(&mut disk, &machine);
        Some((disk_key, disk, result))
    }

    /// Changes the contents of a VM's OS disk. Returns `false` if it has none.
    pub(crate) fn change_contents(&mut self, key: &str, change: impl FnOnce(&mut Contents)) -> bool {
        let disk = self.resources.get(key).filter(|resource| resource.vm.is_some());
        let disk = disk.and_then(|resource| resource.text("properties.storageProfile.osDisk.managedDisk.id"));
        let Some(disk) = disk.map(str::to_ascii_lowercase) else { return false };
        let Some(disk) = self.resources.get_mut(&disk).and_then(|resource| resource.disk.as_mut()) else {
            return false;
        };
        change(disk.change());
        true
    }

    /// The pool of the world file with this name.
    pub(crate) fn pool(&self, name: &str) -> Option<&PoolSpec> {
        self.spec.pools.iter().find(|pool| pool.name.eq_ignore_ascii_case(name))
    }
}
