//! Which image definition a run uses.
//!
//! Generation, architecture, security type and features of a definition cannot change, so a pool may need a second definition later.

use std::fmt;

use kiln_types::{
    Architecture, DefinitionIdentity, DefinitionName, Generation, ImageDefinition, ImageFeatures, ImageSource, OsDisk,
    Plan, Pool, SecurityType, Tags,
};
use serde::Serialize;

use crate::latest::same_definition;

/// The longest name of an image definition.
pub(super) const MAX_NAME: usize = 80;

/// The properties that an image definition must have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DefinitionRequirements {
    pub generation: Generation,
    pub architecture: Architecture,
    pub security_type: SecurityType,
    /// The features of a new definition. An existing one may have fewer.
    pub features: ImageFeatures,
    /// Whether machines of the pool have no other disk controller than NVMe, or the disk boots with no other.
    pub needs_nvme: bool,
    pub plan: Option<Plan>,
}

impl DefinitionRequirements {
    /// The requirements of a donor's disk and its pool.
    pub fn new(disk: &OsDisk, pool: &Pool) -> Self {
        let needs_nvme = disk.features.is_nvme_only() || pool.nvme.unwrap_or_else(|| is_nvme_only(&pool.size));
        let features = disk.features.clone();
        Self {
            generation: disk.generation,
            architecture: disk.architecture,
            security_type: disk.security_type.clone(),
            // The donor runs with this controller, whatever its disk reports.
            features: if needs_nvme { features.with_nvme() } else { features },
            needs_nvme,
            plan: pool.plan.clone(),
        }
    }

    fn suffix(&self) -> String {
        let generation = match self.generation {
            Generation::V1 => "v1",
            Generation::V2 => "v2",
        };
        let architecture = match self.architecture {
            Architecture::X64 => "",
            Architecture::Arm64 => "-arm64",
        };
        let security = match &self.security_type {
            SecurityType::Standard => "standard".to_owned(),
            SecurityType::TrustedLaunch => "trustedlaunch".to_owned(),
            SecurityType::Confidential => "confidential".to_owned(),
            SecurityType::Other(name) => name.to_ascii_lowercase(),
        };
        let nvme = if self.needs_nvme { "-nvme" } else { "" };
        format!("-{generation}{architecture}-{security}{nvme}")
    }
}

/// Whether machines of a size have only an NVMe disk controller, for clouds that do not report the controller of a pool. These are all
/// sizes of version 6 and later, and the storage-optimized ones of version 4 and later.
fn is_nvme_only(size: &str) -> bool {
    let Some((rest, version)) = size.rsplit_once("_v").or_else(|| size.rsplit_once("_V")) else { return false };
    let family = rest.split_once('_').map_or(rest, |(_, family)| family);
    let first = if family.starts_with(['L', 'l']) { 4 } else { 6 };
    version.parse::<u32>().is_ok_and(|version| version >= first)
}

/// Why an image definition cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Mismatch {
    Generation,
    Architecture,
    SecurityType,
    /// The pool's machines boot with an NVMe disk controller only.
    DiskController,
    /// Its machines cannot use the accelerated networking that the donor's disk supports.
    AcceleratedNetworking,
    /// No version of this security type can be created from a snapshot.
    NoSnapshotSupport(String),
}

/// Why an image definition cannot be used. The purchase plan is checked separately.
pub fn mismatches(definition: &ImageDefinition, wanted: &DefinitionRequirements) -> Vec<Mismatch> {
    let security = match &definition.security_type {
        // `TrustedLaunchSupported` and the like require an image without guest state, but a snapshot of a VM has one.
        SecurityType::Other(name) => Some(Mismatch::NoSnapshotSupport(name.clone())),
        other => (*other != wanted.security_type).then_some(Mismatch::SecurityType),
    };
    let generation = (definition.generation != wanted.generation).then_some(Mismatch::Generation);
    let architecture = (definition.architecture != wanted.architecture).then_some(Mismatch::Architecture);
    let controller = (wanted.needs_nvme && !definition.features.has_nvme()).then_some(Mismatch::DiskController);
    let forbidden = definition.features.accelerated_networking == Some(false);
    let network =
        (forbidden && wanted.features.accelerated_networking == Some(true)).then_some(Mismatch::AcceleratedNetworking);
    [generation, architecture, security, controller, network].into_iter().flatten().collect()
}

/// The two possible names of a pool's definition: the first, and one with a suffix for its requirements. Later runs can derive the second
/// without listing definitions.
pub fn definition_names(base: &DefinitionName, wanted: &DefinitionRequirements) -> [DefinitionName; 2] {
    let second = DefinitionName { definition: format!("{}{}", base.definition, wanted.suffix()), ..base.clone() };
    [base.clone(), second]
}

/// The image definition that a run uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DefinitionChoice<'a> {
    Use(&'a ImageDefinition),
    Create(DefinitionName),
    /// Both names are taken by definitions that do not match.
    Taken(Vec<(DefinitionName, Vec<Mismatch>)>),
}

/// Chooses among the existing [`definition_names`]: the one in the recipe, else the first that matches, else a new one.
pub fn choose_definition<'a>(
    base: &DefinitionName,
    wanted: &DefinitionRequirements,
    found: &'a [ImageDefinition],
    recipe: &ImageSource,
) -> DefinitionChoice<'a> {
    let names = definition_names(base, wanted);
    let existing = |name: &DefinitionName| found.iter().find(|definition| same_definition(&definition.name, name));
    let in_recipe = match recipe {
        ImageSource::Definition(name) | ImageSource::ExactVersion(name, _) => existing(name),
        _ => None,
    };
    let matches = |definition: &&ImageDefinition| mismatches(definition, wanted).is_empty();
    if let Some(definition) = in_recipe.into_iter().chain(names.iter().filter_map(existing)).find(matches) {
        return DefinitionChoice::Use(definition);
    }
    if let Some(free) = names.iter().find(|name| existing(name).is_none()) {
        return DefinitionChoice::Create(free.clone());
    }
    let taken = names.iter().filter_map(existing);
    DefinitionChoice::Taken(taken.map(|one| (one.name.clone(), mismatches(one, wanted))).collect())
}

/// An image definition to create. Publisher, offer and SKU are unique in a gallery, so a pool's second definition has another SKU.
pub fn new_definition(
    base: &DefinitionName,
    name: DefinitionName,
    wanted: DefinitionRequirements,
    location: &str,
    identity: DefinitionIdentity,
) -> ImageDefinition {
    let suffix = name.definition.strip_prefix(&base.definition).unwrap_or_default();
    let identity = DefinitionIdentity { sku: format!("{}{suffix}", identity.sku), ..identity };
    ImageDefinition {
        name,
        location: location.to_owned(),
        generation: wanted.generation,
        architecture: wanted.architecture,
        security_type: wanted.security_type,
        features: wanted.features,
        identity,
        plan: wanted.plan,
        tags: Tags::new(),
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Generation => f.write_str("different Hyper-V generation"),
            Self::Architecture => f.write_str("different architecture"),
            Self::SecurityType => f.write_str("different security type"),
            Self::DiskController => {
                f.write_str("no NVMe in its feature DiskControllerTypes, which the pool's machines need to boot")
            }
            Self::AcceleratedNetworking => f.write_str("feature IsAcceleratedNetworkSupported is False"),
            Self::NoSnapshotSupport(name) => write!(f, "security type {name}, which does not support snapshots"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{GROUP, definition, definition_name, disk, marketplace, pool};

    fn wanted() -> DefinitionRequirements {
        DefinitionRequirements::new(&disk(), &pool())
    }

    fn trusted() -> DefinitionRequirements {
        DefinitionRequirements { generation: Generation::V2, security_type: SecurityType::TrustedLaunch, ..wanted() }
    }

    #[test]
    fn definition_like_the_disk_is_used() {
        assert_eq!(mismatches(&definition(), &wanted()), []);
        let definitions = [definition()];
        assert_eq!(
            choose_definition(&definition_name(), &wanted(), &definitions, &marketplace()),
            DefinitionChoice::Use(&definitions[0])
        );
    }

    #[test]
    fn each_immutable_property_is_compared() {
        assert_eq!(
            mismatches(&ImageDefinition { generation: Generation::V2, ..definition() }, &wanted()),
            [Mismatch::Generation]
        );
        let arm = ImageDefinition { architecture: Architecture::Arm64, ..definition() };
        assert_eq!(mismatches(&arm, &wanted()), [Mismatch::Architecture]);
        let trusted = ImageDefinition { security_type: SecurityType::TrustedLaunch, ..definition() };
        assert_eq!(mismatches(&trusted, &wanted()), [Mismatch::SecurityType]);
    }

    #[test]
    fn nvme_is_needed_where_the_pool_or_the_disk_has_no_other_controller() {
        let needs = |size: &str, nvme: Option<bool>, disk_controllers: Option<&str>| {
            let features = ImageFeatures::new(disk_controllers, None);
            let pool = Pool { size: size.to_owned(), nvme, ..pool() };
            DefinitionRequirements::new(&OsDisk { features, ..disk() }, &pool).needs_nvme
        };
        for size in ["Standard_D8s_v6", "Standard_E8as_v6", "Standard_D2ads_v7", "Standard_L8s_v4", "standard_d2ps_V6"]
        {
            assert!(needs(size, None, Some("SCSI, NVMe")), "{size}");
        }
        for size in
            ["Standard_D2_v3", "Standard_E8bds_v5", "Standard_L8s_v3", "Standard_B2s", "Standard_D2s_vX", "1x512"]
        {
            assert!(!needs(size, None, Some("SCSI, NVMe")), "{size}");
        }
        assert!(needs("Standard_E8bds_v5", Some(true), None));
        assert!(!needs("Standard_D8s_v6", Some(false), None), "what Azure reports counts more than the name");
        assert!(needs("Standard_D2_v3", None, Some("NVMe")));
        let pool = Pool { nvme: Some(true), ..pool() };
        assert_eq!(DefinitionRequirements::new(&disk(), &pool).features.disk_controllers, ["SCSI", "NVMe"]);
    }

    #[test]
    fn definition_without_nvme_is_a_mismatch_only_where_it_is_needed() {
        let features = ImageFeatures::new(Some("SCSI, NVMe"), Some(true));
        let disk = OsDisk { features: features.clone(), ..disk() };
        let old = DefinitionRequirements::new(&disk, &pool());
        assert_eq!(mismatches(&definition(), &old), [], "machines with SCSI boot it");
        let new = DefinitionRequirements::new(&disk, &Pool { size: "Standard_D2s_v6".into(), ..pool() });
        assert_eq!(mismatches(&definition(), &new), [Mismatch::DiskController]);
        let definitions = [definition()];
        let DefinitionChoice::Create(name) = choose_definition(&definition_name(), &new, &definitions, &marketplace())
        else {
            panic!("the definition does not match");
        };
        assert!(name.definition.ends_with("-v1-standard-nvme"), "{name:?}");
        let identity = crate::names::definition_identity(GROUP, &pool().name);
        let created = new_definition(&definition_name(), name, new.clone(), "westus2", identity);
        assert_eq!(created.features, features);
        assert_eq!(mismatches(&created, &new), []);
    }

    #[test]
    fn definition_that_forbids_accelerated_networking_is_a_mismatch() {
        let disk = OsDisk { features: ImageFeatures::new(None, Some(true)), ..disk() };
        let wanted = DefinitionRequirements::new(&disk, &pool());
        let with = |supported| ImageDefinition { features: ImageFeatures::new(None, supported), ..definition() };
        assert_eq!(mismatches(&with(Some(false)), &wanted), [Mismatch::AcceleratedNetworking]);
        assert_eq!(mismatches(&with(None), &wanted), []);
    }

    #[test]
    fn definition_that_only_supports_trusted_launch_is_a_mismatch() {
        let supported = SecurityType::Other("TrustedLaunchSupported".into());
        let definition =
            ImageDefinition { security_type: supported.clone(), generation: Generation::V2, ..definition() };
        let wanted = DefinitionRequirements { security_type: supported, generation: Generation::V2, ..wanted() };
        assert_eq!(mismatches(&definition, &wanted), [Mismatch::NoSnapshotSupport("TrustedLaunchSupported".into())]);
    }

    #[test]
    fn second_definition_is_created_and_found_by_later_runs() {
        let old = [definition()];
        let name = format!("{}-v2-trustedlaunch", definition_name().definition);
        let DefinitionChoice::Create(created) = choose_definition(&definition_name(), &trusted(), &old, &marketplace())
        else {
            panic!("the old definition does not match");
        };
        assert_eq!(created.definition, name);
        let identity = crate::names::definition_identity(GROUP, &pool().name);
        let new = new_definition(&definition_name(), created, trusted(), "westus2", identity);
        assert_eq!(new.identity.sku, "k8s-agentpool1-26100436-vmss-v2-trustedlaunch");
        let both = [definition(), new];
        assert_eq!(
            choose_definition(&definition_name(), &trusted(), &both, &marketplace()),
            DefinitionChoice::Use(&both[1])
        );
    }

    #[test]
    fn first_definition_of_a_pool_has_kaminos_name() {
        assert_eq!(
            choose_definition(&definition_name(), &trusted(), &[], &marketplace()),
            DefinitionChoice::Create(definition_name())
        );
        let identity = crate::names::definition_identity(GROUP, &pool().name);
        assert_eq!(
            new_definition(&definition_name(), definition_name(), trusted(), "westus2", identity.clone()).identity,
            identity
        );
    }

    #[test]
    fn definition_in_the_recipe_is_preferred() {
        let [_, second] = definition_names(&definition_name(), &wanted());
        let both = [definition(), ImageDefinition { name: second.clone(), ..definition() }];
        let used = choose_definition(&definition_name(), &wanted(), &both, &ImageSource::Definition(second));
        assert_eq!(used, DefinitionChoice::Use(&both[1]));
        assert_eq!(
            choose_definition(&definition_name(), &wanted(), &both, &marketplace()),
            DefinitionChoice::Use(&both[0])
        );
    }

    #[test]
    fn no_definition_can_be_used_if_both_names_are_taken() {
        let [_, second] = definition_names(&definition_name(), &trusted());
        let both = [definition(), ImageDefinition { name: second, ..definition() }];
        assert!(
            matches!(choose_definition(&definition_name(), &trusted(), &both, &marketplace()), DefinitionChoice::Taken(all) if all.len() == 2)
        );
    }
}
