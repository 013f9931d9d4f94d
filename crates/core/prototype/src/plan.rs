//! What a run would do: before it, without touching anything.

mod durations;
mod secrets;
mod text;

use std::time::Duration;

use kiln_types::{ImageSource, PoolName, VersionNumber};
use serde::Serialize;

use crate::cost::{StorageCost, storage};
use crate::history::{MaxHistory, prune, used};
use crate::journal::Route;
use crate::latest::{same_definition, source_text};
use crate::ready_time::Span;
use crate::refuse::{DefinitionChoice, Original, Preflight, Verdict, Wanted, check, choose_definition};
use crate::run::Policy;
use crate::step::Step;

pub use durations::{Durations, Source, Usual};
pub use secrets::{Cloned, Fate, cloned};

/// What a plan is made from, beside what preflight looks at.
#[derive(Debug, Clone, Copy)]
pub struct Outlook<'a> {
    /// What preflight looks at.
    pub preflight: Preflight<'a>,
    /// What was asked for.
    pub policy: &'a Policy,
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
pub struct Planned {
    pub step: Step,
    /// What it would do here.
    pub does: String,
    /// How long it usually takes.
    pub usual: Usual,
}

/// A plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Plan {
    pub pool: PoolName,
    pub donor: String,
    /// The version that would be made.
    pub version: VersionNumber,
    /// What new nodes are made from now.
    pub now: String,
    /// What would be done, in order.
    pub steps: Vec<Planned>,
    /// How long that takes in all, the drain not counted.
    pub total: Span,
    /// How long the donor is away: from its power off until it is Ready again.
    pub away: Span,
    /// Secrets and credentials on the donor's disk, and what becomes of each in a clone.
    pub cloned: Vec<Cloned>,
    /// What keeping the versions costs.
    pub cost: Option<StorageCost>,
    /// What speaks against it.
    #[serde(flatten)]
    pub verdict: Verdict,
}

/// The steps for which the donor is away.
const AWAY: [Step; 4] = [Step::PowerOff, Step::Snapshot, Step::Start, Step::AwaitReady];

/// What a run would do.
pub fn plan(outlook: Outlook<'_>) -> Plan {
    let Outlook { preflight, policy, version, durations, .. } = outlook;
    let steps: Vec<Planned> = Step::ALL
        .into_iter()
        .filter_map(|step| Some(Planned { step, does: does(step, outlook)?, usual: durations.usual(step) }))
        .collect();
    let sum = |of: &dyn Fn(Step) -> bool| {
        let seconds = steps.iter().filter(|planned| of(planned.step)).filter_map(|planned| planned.usual.takes);
        Span::from_secs(seconds.sum::<Duration>().as_secs())
    };
    let inside = preflight.inside.ok();
    let cost = preflight.disk.and_then(|disk| {
        let used = inside.map(|inside| inside.disk.used_bytes);
        let size = disk.size_gib.or(used.map(|_| 0))?;
        Some(storage(size, used, policy.replicas, 1, policy.max_history))
    });
    Plan {
        pool: preflight.pool.name.clone(),
        donor: preflight.node.name.clone(),
        version: version.clone(),
        now: source_text(&preflight.pool.recipe.image),
        total: sum(&|_| true),
        away: sum(&|step| AWAY.contains(&step)),
        steps,
        cloned: inside.map(cloned).unwrap_or_default(),
        cost,
        verdict: check(preflight),
    }
}

/// What a step would do here; none when there is nothing to do.
fn does(step: Step, outlook: Outlook<'_>) -> Option<String> {
    let Outlook { preflight, policy, version, route, .. } = outlook;
    let (pool, node) = (preflight.pool, &preflight.node.name);
    let whole_way = route == Route::WholeWay;
    let when = |so: bool, text: String| so.then_some(text);
    match step {
        // Reads alone, and what is done only when a canary fails.
        Step::Preflight | Step::Survey | Step::Condemn => None,
        Step::Claim => Some(format!("tag `{}` with the run", pool.name)),
        Step::SaveRecipe => {
            let first = *preflight.original == Original::CanBeSaved;
            when(first, "keep the original recipe for `rollback --to original`".into())
        }
        Step::Gallery => when(!outlook.gallery_exists, format!("make gallery `{}`", preflight.definition_name.gallery)),
        Step::Line => match line(outlook) {
            Line::New(definition) => Some(format!("make image definition `{definition}`")),
            Line::Existing => None,
        },
        Step::ClearFailed => failed(outlook),
        _ if step.is_of_the_bracket() && !whole_way => None,
        Step::HoldNode => Some(format!("keep the autoscaler from `{node}` and cordon it")),
        Step::Protect => Some("protect its instance from the scale set".into()),
        Step::Drain => Some(drain(policy)),
        Step::FirstBoot => {
            let missing = preflight.inside.is_ok_and(|inside| inside.first_boot_unit.is_none());
            when(missing, "install the first-boot unit by a pod; nothing else is changed".into())
        }
        Step::PowerOff if policy.deallocate => Some(format!("deallocate `{node}`")),
        Step::PowerOff => Some(format!("power `{node}` off, keeping its hardware")),
        Step::Snapshot => Some("copy its OS disk".into()),
        Step::Start => Some(format!("start `{node}`")),
        Step::AwaitReady => Some(format!("wait until `{node}` is Ready")),
        Step::Unprotect => Some("give its protection back as it was".into()),
        Step::ReleaseNode => Some("give cordon and annotation back as they were".into()),
        Step::Publish => Some(match route {
            Route::FromVersion => format!("wait for version {version}, which is being made"),
            _ => format!("make version {version} in {} copies, excluded", policy.replicas),
        }),
        Step::DeleteSnapshot => Some("delete the copy".into()),
        Step::Try => when(policy.canary, format!("make one throw-away machine of {version}")),
        Step::AwaitCanary => when(policy.canary, "wait until it has joined".into()),
        Step::DeleteCanary => when(policy.canary, "delete it".into()),
        Step::Include => Some(format!("include {version}: new nodes get it")),
        Step::Model => model(outlook),
        Step::StripData => when(is_first(outlook), "set custom data that does nothing".into()),
        Step::StripScripts => scripts(outlook),
        Step::Prune => pruned(outlook),
        Step::AddNodes => when(policy.new_nodes > 0, format!("add {} nodes", policy.new_nodes)),
        Step::Disclaim => Some("take the run's tag off".into()),
    }
}

enum Line {
    Existing,
    New(String),
}

fn line(outlook: Outlook<'_>) -> Line {
    let facts = outlook.preflight;
    let Some(disk) = facts.disk else { return Line::Existing };
    let wanted = Wanted::of(disk, facts.pool);
    match choose_definition(facts.definition_name, &wanted, facts.lines, &facts.pool.recipe.image) {
        DefinitionChoice::Create(name) => Line::New(name.definition),
        DefinitionChoice::Use(_) | DefinitionChoice::Taken(_) => Line::Existing,
    }
}

fn is_first(outlook: Outlook<'_>) -> bool {
    !names_line(&outlook.preflight.pool.recipe.image, outlook)
}

fn names_line(image: &ImageSource, outlook: Outlook<'_>) -> bool {
    let ours = |line| outlook.preflight.lines.iter().any(|known| same_definition(&known.name, line));
    match image {
        ImageSource::Definition(line) | ImageSource::ExactVersion(line, _) => ours(line),
        _ => false,
    }
}

fn drain(policy: &Policy) -> String {
    let grace = policy.grace_seconds;
    if policy.force {
        format!("drain it, {grace} s for each pod, then delete what is left by force")
    } else {
        format!("drain it, {grace} s for each pod; pods that do not leave end the run")
    }
}

fn model(outlook: Outlook<'_>) -> Option<String> {
    let image = &outlook.preflight.pool.recipe.image;
    if outlook.policy.pin {
        return Some(format!("point the model at {}", outlook.version));
    }
    let follows = matches!(image, ImageSource::Definition(_)) && names_line(image, outlook);
    (!follows).then(|| format!("point the model at the line instead of {}", source_text(image)))
}

fn scripts(outlook: Outlook<'_>) -> Option<String> {
    let extensions = outlook.preflight.pool.recipe.extensions.iter();
    let names: Vec<&str> =
        extensions.filter(|extension| extension.is_custom_script()).map(|extension| extension.name.as_str()).collect();
    (!names.is_empty()).then(|| format!("remove the script extensions {}", names.join(", ")))
}

fn failed(outlook: Outlook<'_>) -> Option<String> {
    let failed = pruning(outlook).failed;
    (!failed.is_empty()).then(|| format!("delete failed versions: {}", list(&failed)))
}

fn pruned(outlook: Outlook<'_>) -> Option<String> {
    let gone = pruning(outlook).delete;
    (!gone.is_empty()).then(|| format!("delete versions beyond the history: {}", list(&gone)))
}

fn list(numbers: &[VersionNumber]) -> String {
    numbers.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// What would be pruned once the new version is there.
fn pruning(outlook: Outlook<'_>) -> crate::history::Prune {
    let facts = outlook.preflight;
    let mut versions = facts.versions.to_vec();
    if !versions.iter().any(|version| version.number == *outlook.version) {
        versions.push(future(outlook.version, &facts.pool.location));
    }
    let line = facts.lines.first().map_or(facts.definition_name, |line| &line.name);
    let used = used([facts.pool], outlook.instances, line, facts.versions);
    let history = MaxHistory::new(outlook.policy.max_history).unwrap_or_default();
    prune(&versions, history, &used, outlook.version)
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
