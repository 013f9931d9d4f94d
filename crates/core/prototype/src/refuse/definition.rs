//! Which image line serves a donor. A line is immutable in generation, architecture and security type, so a pool may need another one later.

use std::fmt;

use kiln_types::{
    Architecture, DefinitionIdentity, DefinitionName, Generation, ImageDefinition, ImageSource, OsDisk, Plan, Pool,
    SecurityType, Tags,
};
use serde::Serialize;

use crate::latest::same_definition;

/// Characters of an image definition's name.
pub(super) const MOST_NAME: usize = 80;

/// What a line must be to hold a donor's image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    pub generation: Generation,
    pub architecture: Architecture,
    /// What the firmware vouches for.
    pub security_type: SecurityType,
    /// The purchase plan.
    pub plan: Option<Plan>,
}

impl Wanted {
    /// What a donor's disk and its pool ask for.
    pub fn of(disk: &OsDisk, pool: &Pool) -> Self {
        Self {
            generation: disk.generation,
            architecture: disk.architecture,
            security_type: disk.security_type.clone(),
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
            SecurityType::Other(word) => word.to_ascii_lowercase(),
        };
        format!("-{generation}{architecture}-{security}")
    }
}

/// What does not fit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Misfit {
    /// Another firmware.
    Generation,
    /// Another processor.
    Architecture,
    /// Another security type.
    SecurityType,
    /// A security type of which no version comes from a snapshot.
    TakesNoSnapshot(String),
}

/// What of a line does not fit. The plan is a matter of its own.
pub fn misfits(line: &ImageDefinition, wanted: &Wanted) -> Vec<Misfit> {
    let security = match &line.security_type {
        // `TrustedLaunchSupported` and its kin promise an image without a guest state, which a snapshot of a VM has.
        SecurityType::Other(word) => Some(Misfit::TakesNoSnapshot(word.clone())),
        other => (*other != wanted.security_type).then_some(Misfit::SecurityType),
    };
    let generation = (line.generation != wanted.generation).then_some(Misfit::Generation);
    let architecture = (line.architecture != wanted.architecture).then_some(Misfit::Architecture);
    [generation, architecture, security].into_iter().flatten().collect()
}

/// Where a fitting line can be: under the pool's own name, or under one that says what it is. The second follows from what is wanted, so
/// that later runs find it without asking for a list.
pub fn definition_names(base: &DefinitionName, wanted: &Wanted) -> [DefinitionName; 2] {
    let second = DefinitionName { definition: format!("{}{}", base.definition, wanted.suffix()), ..base.clone() };
    [base.clone(), second]
}

/// The line that a run uses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DefinitionChoice<'a> {
    /// This one.
    Use(&'a ImageDefinition),
    /// One that is to be made under this name.
    Create(DefinitionName),
    /// None: both names are taken by lines that do not fit.
    Taken(Vec<(DefinitionName, Vec<Misfit>)>),
}

/// Chooses among the lines that exist under [`definition_names`]: the one that the recipe names already, else the first that fits, else a new one.
pub fn choose_definition<'a>(
    base: &DefinitionName,
    wanted: &Wanted,
    found: &'a [ImageDefinition],
    recipe: &ImageSource,
) -> DefinitionChoice<'a> {
    let names = definition_names(base, wanted);
    let existing = |name: &DefinitionName| found.iter().find(|line| same_definition(&line.name, name));
    let in_recipe = match recipe {
        ImageSource::Definition(line) | ImageSource::ExactVersion(line, _) => existing(line),
        _ => None,
    };
    let fits = |line: &&ImageDefinition| misfits(line, wanted).is_empty();
    if let Some(line) = in_recipe.into_iter().chain(names.iter().filter_map(existing)).find(fits) {
        return DefinitionChoice::Use(line);
    }
    match names.iter().find(|name| existing(name).is_none()) {
        Some(free) => DefinitionChoice::Create(free.clone()),
        None => DefinitionChoice::Taken(
            names.iter().filter_map(existing).map(|line| (line.name.clone(), misfits(line, wanted))).collect(),
        ),
    }
}

/// A line to be made. Publisher, offer and sku are unique in a gallery, so a second line of a pool has another sku.
pub fn new_definition(
    base: &DefinitionName,
    name: DefinitionName,
    wanted: Wanted,
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
        identity,
        plan: wanted.plan,
        tags: Tags::new(),
    }
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Generation => f.write_str("another Hyper-V generation"),
            Self::Architecture => f.write_str("another architecture"),
            Self::SecurityType => f.write_str("another security type"),
            Self::TakesNoSnapshot(word) => write!(f, "security type {word}, which takes no snapshot"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::{GROUP, definition_name, disk, line, marketplace, pool};

    fn wanted() -> Wanted {
        Wanted::of(&disk(), &pool())
    }

    fn trusted() -> Wanted {
        Wanted { generation: Generation::V2, security_type: SecurityType::TrustedLaunch, ..wanted() }
    }

    #[test]
    fn a_line_like_the_disk_serves() {
        assert_eq!(misfits(&line(), &wanted()), []);
        let lines = [line()];
        assert_eq!(
            choose_definition(&definition_name(), &wanted(), &lines, &marketplace()),
            DefinitionChoice::Use(&lines[0])
        );
    }

    #[test]
    fn each_thing_that_cannot_change_later_can_misfit() {
        assert_eq!(misfits(&ImageDefinition { generation: Generation::V2, ..line() }, &wanted()), [Misfit::Generation]);
        let arm = ImageDefinition { architecture: Architecture::Arm64, ..line() };
        assert_eq!(misfits(&arm, &wanted()), [Misfit::Architecture]);
        let trusted = ImageDefinition { security_type: SecurityType::TrustedLaunch, ..line() };
        assert_eq!(misfits(&trusted, &wanted()), [Misfit::SecurityType]);
    }

    #[test]
    fn a_line_that_merely_supports_trusted_launch_takes_no_snapshot() {
        let supported = SecurityType::Other("TrustedLaunchSupported".into());
        let line = ImageDefinition { security_type: supported.clone(), generation: Generation::V2, ..line() };
        let wanted = Wanted { security_type: supported, generation: Generation::V2, ..wanted() };
        assert_eq!(misfits(&line, &wanted), [Misfit::TakesNoSnapshot("TrustedLaunchSupported".into())]);
    }

    #[test]
    fn a_line_that_cannot_serve_gets_a_sister_that_later_runs_find() {
        let old = [line()];
        let name = format!("{}-v2-trustedlaunch", definition_name().definition);
        let DefinitionChoice::Create(created) = choose_definition(&definition_name(), &trusted(), &old, &marketplace())
        else {
            panic!("the old line does not fit");
        };
        assert_eq!(created.definition, name);
        let identity = crate::names::definition_identity(GROUP, &pool().name);
        let new = new_definition(&definition_name(), created, trusted(), "westus2", identity);
        assert_eq!(new.identity.sku, "k8s-agentpool1-26100436-vmss-v2-trustedlaunch");
        let both = [line(), new];
        assert_eq!(
            choose_definition(&definition_name(), &trusted(), &both, &marketplace()),
            DefinitionChoice::Use(&both[1])
        );
    }

    #[test]
    fn the_first_line_of_a_pool_has_kaminos_name_whatever_it_is() {
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
    fn of_two_that_fit_the_one_in_the_recipe_is_used() {
        let [_, second] = definition_names(&definition_name(), &wanted());
        let both = [line(), ImageDefinition { name: second.clone(), ..line() }];
        let used = choose_definition(&definition_name(), &wanted(), &both, &ImageSource::Definition(second));
        assert_eq!(used, DefinitionChoice::Use(&both[1]));
        assert_eq!(
            choose_definition(&definition_name(), &wanted(), &both, &marketplace()),
            DefinitionChoice::Use(&both[0])
        );
    }

    #[test]
    fn when_both_names_are_taken_there_is_none() {
        let [_, second] = definition_names(&definition_name(), &trusted());
        let both = [line(), ImageDefinition { name: second, ..line() }];
        assert!(
            matches!(choose_definition(&definition_name(), &trusted(), &both, &marketplace()), DefinitionChoice::Taken(all) if all.len() == 2)
        );
    }
}
