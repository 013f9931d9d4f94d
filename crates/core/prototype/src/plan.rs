//! What a run would do: before it, without touching anything.

mod durations;
mod secrets;
mod text;

use std::time::Duration;

use kiln_types::{ImageSource, NodeName, PoolName, VersionNumber};
use serde::Serialize;

use crate::cost::{StorageCost, storage};
use crate::history::{prune, used};
use crate::journal::Route;
use crate::latest::{describe_image, same_definition};
use crate::preflight::{
    DefinitionChoice, DefinitionRequirements, OriginalState, PreflightInput, PreflightReport, check, choose_definition,
};
use crate::run::RunOptions;
use crate::span::Span;
use crate::step::Step;

pub use durations::{DurationSource, Durations, ExpectedDuration};
pub use secrets::{CloneTreatment, ClonedSecret, cloned_secrets};

/// What a plan is made from, beside what preflight looks at.
#[derive(Debug, Clone, Copy)]
pub struct PlanInput<'a> {
    /// What preflight looks at.
    pub preflight: PreflightInput<'a>,
    /// What was asked for.
    /// Replicas of the version per region.
    pub replicas: u32,
    /// The version that the run would make.
    pub version: &'a VersionNumber,
    /// Whether the gallery exists.
    pub gallery_exists: bool,
    /// How much of the work an earlier run has done today.
    pub route: Route,
    /// All instances of the pool.
    pub instances: &'a [kiln_types::Instance],
    /// How long steps take.
    pub durations: &'a Durations,
}

/// One step of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlannedStep {
    pub step: Step,
    /// What it would do here.
    pub does: String,
    /// How long it usually takes.
    pub expected: ExpectedDuration,
}

/// A plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    pub pool: PoolName,
    pub donor: NodeName,
    /// The version that would be made.
    pub version: VersionNumber,
    /// What new nodes are made from now.
    pub now: String,
    /// What would be done, in order.
    pub steps: Vec<PlannedStep>,
    /// How long that takes in all, the drain not counted.
    pub total: Span,
    /// How long the donor is away: from its power off until it is Ready again.
    pub away: Span,
    /// Secrets and credentials on the donor's disk, and what becomes of each in a clone.
    pub secrets: Vec<ClonedSecret>,
    /// What keeping the versions costs.
    pub cost: Option<StorageCost>,
    /// What speaks against it.
    #[serde(flatten)]
    pub preflight: PreflightReport,
}

/// The steps for which the donor is away.
const AWAY: [Step; 4] = [Step::PowerOff, Step::Snapshot, Step::Start, Step::AwaitReady];

/// What a run would do.
pub fn plan(input: PlanInput<'_>) -> Plan {
    let PlanInput { preflight, version, durations, replicas, .. } = input;
    let options = preflight.options;
    let steps: Vec<PlannedStep> = Step::ALL
        .into_iter()
        .filter_map(|step| Some(PlannedStep { step, does: does(step, input)?, expected: durations.expected(step) }))
        .collect();
    let sum = |of: &dyn Fn(Step) -> bool| {
        let seconds = steps.iter().filter(|planned| of(planned.step)).filter_map(|planned| planned.expected.takes);
        Span::from_secs(seconds.sum::<Duration>().as_secs())
    };
    let inside = preflight.inspection.ok();
    let cost = preflight.disk.and_then(|disk| {
        let used = inside.map(|inside| inside.disk.used_bytes);
        let size = disk.size_gib.or(used.map(|_| 0))?;
        Some(storage(size, used, replicas, 1, options.max_history.get()))
    });
    Plan {
        pool: preflight.pool.name.clone(),
        donor: preflight.node.name.clone(),
        version: version.clone(),
        now: describe_image(&preflight.pool.recipe.image),
        total: sum(&|_| true),
        away: sum(&|step| AWAY.contains(&step)),
        steps,
        secrets: inside.map(cloned_secrets).unwrap_or_default(),
        cost,
        preflight: check(preflight),
    }
}

/// What a step would do here; none when there is nothing to do.
fn does(step: Step, input: PlanInput<'_>) -> Option<String> {
    let PlanInput { preflight, version, route, .. } = input;
    let options = preflight.options;
    let (pool, node) = (preflight.pool, &preflight.node.name);
    let whole_way = route == Route::Full;
    let when = |so: bool, text: String| so.then_some(text);
    match step {
        // Reads alone, and what is done only when a canary fails.
        Step::Preflight | Step::Survey | Step::Reject => None,
        Step::Claim => Some(format!("tag `{}` with the run", pool.name)),
        Step::SaveRecipe => {
            let first = *preflight.original == OriginalState::CanBeSaved;
            when(first, "keep the original recipe for `rollback --to original`".into())
        }
        Step::Gallery => when(!input.gallery_exists, format!("make gallery `{}`", preflight.definition_name.gallery)),
        Step::Definition => match line(input) {
            DefinitionPlan::New(definition) => Some(format!("make image definition `{definition}`")),
            DefinitionPlan::Existing => None,
        },
        Step::ClearFailed => failed(input),
        _ if step.is_donor_step() && !whole_way => None,
        Step::HoldNode => Some(format!("keep the autoscaler from `{node}` and cordon it")),
        Step::Protect => Some("protect its instance from the scale set".into()),
        Step::Drain => Some(drain(options)),
        Step::FirstBoot => {
            let missing = preflight.inspection.is_ok_and(|inside| inside.first_boot_unit.is_none());
            when(missing, "install the first-boot unit by a pod; nothing else is changed".into())
        }
        Step::PowerOff if options.deallocate => Some(format!("deallocate `{node}`")),
        Step::PowerOff => Some(format!("power `{node}` off, keeping its hardware")),
        Step::Snapshot => Some("copy its OS disk".into()),
        Step::Start => Some(format!("start `{node}`")),
        Step::AwaitReady => Some(format!("wait until `{node}` is Ready")),
        Step::Unprotect => Some("give its protection back as it was".into()),
        Step::ReleaseNode => Some("give cordon and annotation back as they were".into()),
        Step::Publish => Some(match route {
            Route::FromVersion => format!("wait for version {version}, which is being made"),
            _ => format!("make version {version} in {} copies, excluded", input.replicas),
        }),
        Step::DeleteSnapshot => Some("delete the copy".into()),
        Step::CreateCanary => when(options.canary, format!("make one throw-away machine of {version}")),
        Step::AwaitCanary => when(options.canary, "wait until it has joined".into()),
        Step::DeleteCanary => when(options.canary, "delete it".into()),
        Step::Include => Some(format!("include {version}: new nodes get it")),
        Step::Model => model(input),
        Step::StripData => when(is_first(input), "set custom data that does nothing".into()),
        Step::StripScripts => scripts(input),
        Step::Prune => pruned(input),
        Step::AddNodes => when(options.new_nodes > 0, format!("add {} nodes", options.new_nodes)),
        Step::ReleaseClaim => Some("take the run's tag off".into()),
    }
}

enum DefinitionPlan {
    Existing,
    New(String),
}

fn line(input: PlanInput<'_>) -> DefinitionPlan {
    let facts = input.preflight;
    let Some(disk) = facts.disk else { return DefinitionPlan::Existing };
    let wanted = DefinitionRequirements::new(disk, facts.pool);
    match choose_definition(facts.definition_name, &wanted, facts.definitions, &facts.pool.recipe.image) {
        DefinitionChoice::Create(name) => DefinitionPlan::New(name.definition),
        DefinitionChoice::Use(_) | DefinitionChoice::Taken(_) => DefinitionPlan::Existing,
    }
}

fn is_first(input: PlanInput<'_>) -> bool {
    !names_line(&input.preflight.pool.recipe.image, input)
}

fn names_line(image: &ImageSource, input: PlanInput<'_>) -> bool {
    let ours = |line| input.preflight.definitions.iter().any(|known| same_definition(&known.name, line));
    match image {
        ImageSource::Definition(line) | ImageSource::ExactVersion(line, _) => ours(line),
        _ => false,
    }
}

fn drain(options: &RunOptions) -> String {
    let grace = options.grace_seconds;
    if options.force {
        format!("drain it, {grace} s for each pod, then delete what is left by force")
    } else {
        format!("drain it, {grace} s for each pod; pods that do not leave end the run")
    }
}

fn model(input: PlanInput<'_>) -> Option<String> {
    let image = &input.preflight.pool.recipe.image;
    if input.preflight.options.pin {
        return Some(format!("point the model at {}", input.version));
    }
    let follows = matches!(image, ImageSource::Definition(_)) && names_line(image, input);
    (!follows).then(|| format!("point the model at the line instead of {}", describe_image(image)))
}

fn scripts(input: PlanInput<'_>) -> Option<String> {
    let extensions = input.preflight.pool.recipe.extensions.iter();
    let names: Vec<&str> =
        extensions.filter(|extension| extension.is_custom_script()).map(|extension| extension.name.as_str()).collect();
    (!names.is_empty()).then(|| format!("remove the script extensions {}", names.join(", ")))
}

fn failed(input: PlanInput<'_>) -> Option<String> {
    let failed = pruning(input).failed;
    (!failed.is_empty()).then(|| format!("delete failed versions: {}", list(&failed)))
}

fn pruned(input: PlanInput<'_>) -> Option<String> {
    let gone = pruning(input).delete;
    (!gone.is_empty()).then(|| format!("delete versions beyond the history: {}", list(&gone)))
}

fn list(numbers: &[VersionNumber]) -> String {
    numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// What would be pruned once the new version is there.
fn pruning(input: PlanInput<'_>) -> crate::history::Prune {
    let facts = input.preflight;
    let mut versions = facts.versions.to_vec();
    if !versions.iter().any(|version| version.number == *input.version) {
        versions.push(future(input.version, &facts.pool.location));
    }
    let line = facts.definitions.first().map_or(facts.definition_name, |line| &line.name);
    let used = used([facts.pool], input.instances, line, facts.versions);
    prune(&versions, input.preflight.options.max_history, &used, input.version)
}

fn future(number: &VersionNumber, region: &str) -> kiln_types::ImageVersion {
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
