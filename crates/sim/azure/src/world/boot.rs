//! What a boot finds on a disk and does to it: the recipe of a new machine, the first-boot unit of a clone, and whether kubelet gets in.

use std::collections::BTreeSet;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kiln_node_plan::{IDENTITY, Treatment};
use kiln_sim_store::Ids;
use kiln_types::{
    Ancestor, CustomData, FstabEntry, JoinCredential, KeepOrDrop, SecretBytes, TokenId, clone_credential,
};

use super::World;
use super::contents::{Contents, Disk, default_credential};
use super::contents_spec::Defect;
use super::pool::PoolSpec;
use super::profile::{Profile, When};

/// The machine that boots.
pub(crate) struct Machine<'a> {
    pub(crate) vm_id: &'a str,
    /// The name that the platform gives it.
    pub(crate) computer_name: &'a str,
    /// The image that its disk was made from.
    pub(crate) image: &'a str,
    /// It has not booted from this disk before.
    pub(crate) first: bool,
    /// base64.
    pub(crate) custom_data: Option<&'a str>,
    /// A Custom Script extension runs at first boot.
    pub(crate) script: bool,
    /// The pool of the world file that the disk was made for.
    pub(crate) pool: Option<&'a PoolSpec>,
    pub(crate) revoked: &'a BTreeSet<TokenId>,
    pub(crate) profile: &'a Profile,
}

/// What a boot comes to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    /// Custom data that does something is worked off.
    pub(crate) custom_data: bool,
    /// A Custom Script extension runs.
    pub(crate) script: bool,
    /// Images of the pool that are not on the disk.
    pub(crate) images_to_pull: u32,
    /// Packages that have a newer version.
    pub(crate) packages_behind: u32,
    /// Why kubelet does not get in.
    pub(crate) cannot_join: Option<String>,
    /// Why its node does not become Ready.
    pub(crate) never_ready: Option<String>,
    /// Why it does not come to its end.
    pub(crate) hangs: Option<String>,
}

/// Boots a machine from a disk.
pub(crate) fn boot(disk: &mut Disk, machine: &Machine<'_>) -> Facts {
    let custom_data = machine.custom_data.filter(|data| machine.first && does_something(data));
    let script = machine.first && machine.script;
    let contents = disk.change();
    contents.logs += 1;
    if contents.owner.is_empty() {
        take(contents, machine);
    } else if contents.owner != machine.vm_id {
        contents.defects = contents.defects.iter().map(|defect| defect.on_a_clone()).collect();
        if contents.fstab.iter().any(FstabEntry::holds_up_a_clone) {
            contents.defects.insert(Defect::MountMissing);
        }
        if contents.first_boot_unit.as_ref().is_some_and(|unit| unit.recorded_vm_id != machine.vm_id) {
            become_another(contents, machine);
        }
    }
    let recipe = custom_data.is_some() || script;
    if recipe {
        let brought = machine.pool.and_then(|pool| pool.contents.join_credential.clone());
        contents.join_credential = Some(brought.unwrap_or_else(default_credential));
    }
    if let Some(data) = custom_data {
        let bytes = SecretBytes::new(STANDARD.decode(data).unwrap_or_else(|_| data.as_bytes().to_vec()));
        contents.custom_data = CustomData::found(bytes).without_bytes();
    }
    let (images_to_pull, packages_behind) =
        machine.pool.map_or((0, 0), |pool| (contents.to_pull(pool), contents.behind(pool)));
    if let Some(pool) = machine.pool {
        catch_up(contents, pool, machine.profile);
    }
    let cannot_join = join(contents, recipe, machine.revoked).err();
    contents.joined |= cannot_join.is_none();
    let never_ready = contents
        .defects
        .contains(&Defect::NeverReady)
        .then(|| "the disk has a defect: kubelet never becomes ready".to_owned());
    let hangs = hangs(contents);
    if let Some(data) = custom_data {
        disk.custom_data = Some(data.to_owned());
    } else if !disk.contents.custom_data.present() {
        disk.custom_data = None;
    }
    Facts {
        custom_data: custom_data.is_some(),
        script,
        images_to_pull,
        packages_behind,
        cannot_join,
        never_ready,
        hangs,
    }
}

/// Why a boot from this disk does not end.
fn hangs(contents: &Contents) -> Option<String> {
    if contents.defects.contains(&Defect::NeverBoots) {
        return Some("the disk has a defect: no boot ends".to_owned());
    }
    let missing = contents.fstab.iter().find(|entry| entry.holds_up_a_clone());
    let missing = missing.filter(|_| contents.defects.contains(&Defect::MountMissing))?;
    Some(format!("`{}` is not there for `{}`: emergency mode", missing.device, missing.mount_point))
}

/// Custom data of comments alone asks for nothing: kamino's is `#cloud-config` and a line break.
fn does_something(data: &str) -> bool {
    let Ok(bytes) = STANDARD.decode(data) else { return true };
    let text = String::from_utf8_lossy(&bytes);
    let idle = |line: &str| line.trim().is_empty() || (line.starts_with('#') && !line.starts_with("#!"));
    !text.lines().all(idle)
}

/// The first boot from a disk that nobody booted from.
fn take(contents: &mut Contents, machine: &Machine<'_>) {
    machine.vm_id.clone_into(&mut contents.owner);
    for item in IDENTITY {
        contents.identity.insert(item.name.to_owned(), value(item.name, machine));
    }
    if let Some(unit) = &mut contents.first_boot_unit {
        machine.vm_id.clone_into(&mut unit.recorded_vm_id);
    }
}

/// What the first-boot unit does on a clone.
fn become_another(contents: &mut Contents, machine: &Machine<'_>) {
    for item in IDENTITY {
        match item.treatment {
            Treatment::Keep => {}
            Treatment::Remove => {
                contents.identity.remove(item.name);
            }
            Treatment::Reset => {
                contents.identity.insert(item.name.to_owned(), value(item.name, machine));
            }
        }
    }
    // It lay in cloud-init's state.
    contents.custom_data = CustomData::absent();
    if let Some(credential) = &contents.join_credential
        && let Ok(KeepOrDrop::Drop { renewed_by }) = clone_credential(credential)
    {
        let token_id = fresh_token(machine.vm_id);
        contents.join_credential =
            token_id.map(|token_id| JoinCredential::BootstrapToken { token_id, renewed_by: Some(renewed_by) });
    }
    contents.joined = false;
    machine.vm_id.clone_into(&mut contents.owner);
    contents.ancestry.push(Ancestor { image_version: machine.image.to_owned(), run: None });
    if let Some(unit) = &mut contents.first_boot_unit {
        machine.vm_id.clone_into(&mut unit.recorded_vm_id);
    }
}

/// Where the profile has stages for it, a boot installs what is newer and pulls what is missing.
fn catch_up(contents: &mut Contents, pool: &PoolSpec, profile: &Profile) {
    let has = |when| profile.boot.iter().any(|stage| stage.when == when);
    let (images, packages) = (has(When::Images), has(When::Packages));
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

/// Whether kubelet gets in with what is on the disk.
fn join(contents: &Contents, recipe: bool, revoked: &BTreeSet<TokenId>) -> Result<(), String> {
    if contents.joined {
        return Ok(());
    }
    match &contents.join_credential {
        None => Err("its disk has no join credential: no custom data and no script wrote one".to_owned()),
        Some(JoinCredential::BootstrapToken { token_id, .. }) if revoked.contains(token_id) => {
            Err(format!("bootstrap token `{token_id}` is revoked"))
        }
        // A recipe knows what it writes, whatever an onlooker makes of it.
        Some(JoinCredential::Unknown { why }) if !recipe => {
            Err(format!("its join credential is of no known kind: {why}"))
        }
        Some(_) => Ok(()),
    }
}

/// The value of an identity item on a machine: the same whenever it is made for the same one, and never that of another.
fn value(item: &str, machine: &Machine<'_>) -> String {
    match item {
        "host-name" => machine.computer_name.to_owned(),
        "machine-id" => unique(item, machine.vm_id).replace('-', ""),
        _ => unique(item, machine.vm_id),
    }
}

fn unique(what: &str, vm_id: &str) -> String {
    // FNV-1a: the ids of a world are told apart, not kept secret.
    let hash = format!("{what} {vm_id}")
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    Ids::new(hash).uuid()
}

/// The id of the token that whoever renews tokens has for a new machine.
fn fresh_token(vm_id: &str) -> Option<TokenId> {
    unique("bootstrap-token", vm_id).get(..6).and_then(|id| id.parse().ok())
}

impl World {
    /// What the next boot of a machine would find and leave: the key of its disk, the disk afterwards, and the facts.
    pub(crate) fn boot(&self, key: &str) -> Option<(String, Disk, Facts)> {
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
            script: vm.script,
            pool: self.pool(&disk.contents.pool),
            revoked: &self.meta.revoked_tokens,
            profile: &self.spec.profile,
        };
        let facts = boot(&mut disk, &machine);
        Some((disk_key, disk, facts))
    }

    /// Changes what is on a machine's OS disk; `false` when there is none.
    pub(crate) fn alter(&mut self, key: &str, change: impl FnOnce(&mut Contents)) -> bool {
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
