//! The plan of a run: its steps, durations, secrets, cost and blockers, without changing anything.

mod durations;
mod secrets;
mod text;

use std::time::Duration;

use kiln_types::{ImageSource, JoinMode, NodeName, PoolName, VersionNumber};
use serde::Serialize;

use crate::cost::{StorageCost, storage};
use crate::history::{prune, used};
use crate::join::choose_join;
use crate::journal::Route;
use crate::latest::{describe_image, same_definition};
use crate::preflight::{
    Consent, DefinitionChoice, DefinitionRequirements, OriginalState, PreflightInput, PreflightReport, check,
    choose_definition,
};
use crate::run::RunOptions;
use crate::span::Span;
use crate::step::Step;

pub use durations::{DurationSource, Durations, ExpectedDuration};
pub use secrets::{CloneTreatment, ClonedSecret, cloned_secrets};

/// The input of [`plan`].
#[derive(Debug, Clone, Copy)]
pub struct PlanInput<'a> {
    pub preflight: PreflightInput<'a>,
    /// Replicas of the version per region.
    pub replicas: u32,
    /// The version that the run would create.
    pub version: &'a VersionNumber,
    pub gallery_exists: bool,
    pub route: Route,
    pub instances: &'a [kiln_types::Instance],
    pub durations: &'a Durations,
}

/// A step of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlannedStep {
    pub step: Step,
    pub does: String,
    pub expected: ExpectedDuration,
}

/// The plan of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    pub pool: PoolName,
    pub donor: NodeName,
    pub version: VersionNumber,
    /// How clones would join; unset if they could not.
    pub join: Option<JoinMode>,
    /// The current image of new nodes.
    pub now: String,
    pub steps: Vec<PlannedStep>,
    /// The expected duration without the drain.
    pub total: Span,
    /// Whether the disk of the running donor is copied.
    pub live: bool,
    /// How long the donor is expected to be away, from power off until Ready.
    pub away: Span,
    /// Secrets on the donor's disk.
    pub secrets: Vec<ClonedSecret>,
    pub cost: Option<StorageCost>,
    /// Every consent that a run of this kind can need, given or not.
    pub consents: Vec<PlannedConsent>,
    #[serde(flatten)]
    pub preflight: PreflightReport,
}

/// A consent of the run's options.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PlannedConsent {
    pub flag: &'static str,
    pub given: bool,
    pub waives: &'static str,
}

impl PlannedConsent {
    fn new(consent: Consent, options: &RunOptions) -> Self {
        let flag = consent.flag().expect("every consent of the list has an option");
        Self { flag, given: consent.is_given(options), waives: consent.waives() }
    }
}

/// The steps during which the donor is away.
const AWAY: [Step; 4] = [Step::PowerOff, Step::Snapshot, Step::Start, Step::AwaitReady];

/// Plans a run.
pub fn plan(input: PlanInput<'_>) -> Plan {
    let PlanInput { preflight, version, durations, replicas, .. } = input;
    let options = preflight.options;
    let steps: Vec<PlannedStep> = Step::ALL
        .into_iter()
        .filter_map(|step| {
            Some(PlannedStep { step, does: describe(step, &input)?, expected: durations.expected(step) })
        })
        .collect();
    let sum = |counts: &dyn Fn(Step) -> bool| {
        let seconds = steps.iter().filter(|planned| counts(planned.step)).filter_map(|planned| planned.expected.takes);
        Span::from_secs(seconds.sum::<Duration>().as_secs())
    };
    let inspection = preflight.inspection.ok();
    let cost = preflight.disk.and_then(|disk| {
        let used = inspection.map(|inspection| inspection.disk.used_bytes);
        let size = disk.size_gib.or(used.map(|_| 0))?;
        Some(storage(size, used, replicas, 1, options.max_history.get()))
    });
    Plan {
        pool: preflight.pool.name.clone(),
        donor: preflight.node.name.clone(),
        version: version.clone(),
        join: join(&input),
        now: describe_image(&preflight.pool.recipe.image),
        live: options.live && input.route == Route::Full,
        total: sum(&|_| true),
        away: sum(&|step| AWAY.contains(&step)),
        steps,
        secrets: inspection.map(|inspection| cloned_secrets(inspection, join(&input))).unwrap_or_default(),
        cost,
        consents: Consent::ALL
            .into_iter()
            .filter(|consent| consent.applies(options))
            .map(|consent| PlannedConsent::new(consent, options))
            .collect(),
        preflight: check(preflight),
    }
}

/// Describes the action of a step; `None` if it would do nothing.
fn describe(step: Step, input: &PlanInput<'_>) -> Option<String> {
    let PlanInput { preflight, version, route, .. } = input;
    let options = preflight.options;
    let (pool, node) = (preflight.pool, &preflight.node.name);
    let is_full = *route == Route::Full;
    let keeps_custom_data = preflight.inspection.is_ok_and(|inspection| inspection.node_config_in_custom_data);
    let when = |applies: bool, text: String| applies.then_some(text);
    match step {
        // These only read, or happen only if a canary fails.
        Step::Preflight | Step::Survey | Step::Reject => None,
        Step::Claim => Some(format!("tag `{}` with the run", pool.name)),
        Step::SaveRecipe => {
            let first = *preflight.original == OriginalState::CanBeSaved;
            when(first, "save the original recipe for `rollback --to original`".into())
        }
        Step::Gallery => when(!input.gallery_exists, format!("create gallery `{}`", preflight.definition_name.gallery)),
        Step::Definition => match definition(input) {
            DefinitionPlan::New(name) => Some(format!("create image definition `{name}`")),
            DefinitionPlan::Existing => None,
        },
        Step::ClearFailed => failed(input),
        _ if step.is_donor_step() && !is_full => None,
        Step::Protect
        | Step::Drain
        | Step::PowerOff
        | Step::Snapshot
        | Step::Start
        | Step::AwaitReady
        | Step::Unprotect
            if options.live =>
        {
            None
        }
        Step::LiveSnapshot | Step::Thaw if !options.live => None,
        Step::HoldNode if options.live => Some(format!("disable the scale-down of `{node}`")),
        Step::HoldNode => Some(format!("cordon `{node}` and disable its scale-down")),
        Step::Protect => Some("protect its instance from the scale set".into()),
        Step::Drain => Some(drain(options)),
        Step::FirstBoot => {
            let missing = preflight.inspection.is_ok_and(|inspection| inspection.first_boot_unit.is_none());
            when(missing, "install the first-boot unit with a pod that changes nothing else".into())
        }
        Step::PowerOff if options.deallocate => Some(format!("deallocate `{node}`")),
        Step::PowerOff => Some(format!("stop `{node}`, keeping its hardware reserved")),
        Step::Snapshot => Some("create a snapshot of its OS disk".into()),
        Step::LiveSnapshot => Some(
            "freeze its file systems with a privileged pod, create a snapshot of its OS disk, and thaw them".into(),
        ),
        Step::Thaw => Some("verify that its file systems are thawed".into()),
        Step::Start => Some(format!("start `{node}`")),
        Step::AwaitReady => Some(format!("wait until `{node}` is Ready")),
        Step::Unprotect => Some("restore its protection".into()),
        Step::ReleaseNode if options.live => Some("restore its annotation".into()),
        Step::ReleaseNode => Some("restore its cordon and annotation".into()),
        Step::Publish => Some(match route {
            Route::FromVersion => format!("wait for version {version}, which is being created"),
            _ => format!("create version {version} with {} replicas, excluded", input.replicas),
        }),
        Step::DeleteSnapshot => Some("delete the snapshot".into()),
        Step::CreateCanary => when(options.canary, format!("create a canary from version {version}")),
        Step::AwaitCanary => when(options.canary, "wait until the canary is Ready".into()),
        Step::DeleteCanary => when(options.canary, "delete the canary".into()),
        Step::Include => Some(format!("include version {version}: new nodes get it")),
        Step::Model => model(input),
        Step::StripData | Step::StripScripts if join(input) == Some(JoinMode::Recipe) => None,
        Step::StripData => {
            when(is_first(input) && !keeps_custom_data, "replace the custom data by one without effect".into())
        }
        Step::StripScripts => scripts(input),
        Step::Prune => pruned(input),
        Step::AddNodes => when(options.new_nodes > 0, format!("add {} nodes", options.new_nodes)),
        Step::ReleaseClaim => Some("remove the run's tag".into()),
    }
}

fn join(input: &PlanInput<'_>) -> Option<JoinMode> {
    let PreflightInput { inspection, options, pool, .. } = input.preflight;
    choose_join(options.join, inspection.ok()?, pool).ok()
}

enum DefinitionPlan {
    Existing,
    New(String),
}

fn definition(input: &PlanInput<'_>) -> DefinitionPlan {
    let facts = input.preflight;
    let Some(disk) = facts.disk else { return DefinitionPlan::Existing };
    let wanted = DefinitionRequirements::new(disk, facts.pool);
    match choose_definition(facts.definition_name, &wanted, facts.definitions, &facts.pool.recipe.image) {
        DefinitionChoice::Create(name) => DefinitionPlan::New(name.definition),
        DefinitionChoice::Use(_) | DefinitionChoice::Taken(_) => DefinitionPlan::Existing,
    }
}

fn is_first(input: &PlanInput<'_>) -> bool {
    !names_definition(&input.preflight.pool.recipe.image, input)
}

fn names_definition(image: &ImageSource, input: &PlanInput<'_>) -> bool {
    let is_own = |name| input.preflight.definitions.iter().any(|own| same_definition(&own.name, name));
    match image {
        ImageSource::Definition(name) | ImageSource::ExactVersion(name, _) => is_own(name),
        _ => false,
    }
}

fn drain(options: &RunOptions) -> String {
    let grace = match options.grace_seconds {
        None => "each pod's own grace period".to_owned(),
        Some(0) => "no grace period".to_owned(),
        Some(seconds) => format!("{seconds} s for each pod"),
    };
    if options.force {
        format!("drain it with {grace}, then force-delete the remaining pods")
    } else {
        format!("drain it with {grace}; the run ends if pods remain")
    }
}

fn model(input: &PlanInput<'_>) -> Option<String> {
    let image = &input.preflight.pool.recipe.image;
    if input.preflight.options.pin {
        return Some(format!("point the model at version {}", input.version));
    }
    let follows = matches!(image, ImageSource::Definition(_)) && names_definition(image, input);
    (!follows).then(|| format!("point the model at the image definition instead of {}", describe_image(image)))
}

fn scripts(input: &PlanInput<'_>) -> Option<String> {
    let extensions = input.preflight.pool.recipe.extensions.iter();
    let names: Vec<&str> =
        extensions.filter(|extension| extension.is_custom_script()).map(|extension| extension.name.as_str()).collect();
    (!names.is_empty()).then(|| format!("remove the script extensions {}", names.join(", ")))
}

fn failed(input: &PlanInput<'_>) -> Option<String> {
    let failed = pruning(input).failed;
    (!failed.is_empty()).then(|| format!("delete failed versions: {}", list(&failed)))
}

fn pruned(input: &PlanInput<'_>) -> Option<String> {
    let gone = pruning(input).delete;
    (!gone.is_empty()).then(|| format!("delete versions beyond the history: {}", list(&gone)))
}

fn list(numbers: &[VersionNumber]) -> String {
    numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// The versions that would be pruned once the new version exists.
fn pruning(input: &PlanInput<'_>) -> crate::history::Prune {
    let facts = input.preflight;
    let mut versions = facts.versions.to_vec();
    if !versions.iter().any(|version| version.number == *input.version) {
        versions.push(planned_version(input.version, &facts.pool.location));
    }
    let definition = facts.definitions.first().map_or(facts.definition_name, |definition| &definition.name);
    let used = used([facts.pool], input.instances, definition, facts.versions);
    prune(&versions, input.preflight.options.max_history, &used, input.version)
}

fn planned_version(number: &VersionNumber, region: &str) -> kiln_types::ImageVersion {
    kiln_types::ImageVersion {
        number: number.clone(),
        id: String::new(),
        state: kiln_types::VersionState::Succeeded,
        excluded: false,
        regions: vec![kiln_types::RegionProgress {
            region: region.to_owned(),
            excluded: false,
            percent: Some(100),
            complete: true,
        }],
        storage: None,
        tags: kiln_types::Tags::new(),
        created: None,
    }
}

#[cfg(test)]
mod tests;
