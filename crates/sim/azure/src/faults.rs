//! What goes wrong, by name. A plan is a list of rules; the same plan, seed and requests give the same faults.

use http::StatusCode;
use serde::{Deserialize, Serialize};

use crate::arm::call::Call;
use crate::arm::error::ArmError;
use crate::arm::id::Target;
use crate::world::operation::Fate;
use crate::world::roles::matches;
use crate::yaml;
use kiln_sim_store::chance;

/// A fault plan, as its file tells it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FaultPlan {
    /// The first rule that applies to a request is the one that acts.
    #[serde(default)]
    pub faults: Vec<Rule>,
}

/// One fault and the requests that it hits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rule {
    /// What goes wrong.
    pub kind: Kind,
    /// HTTP method, `*` for any.
    #[serde(default = "any")]
    pub method: String,
    /// Resource type such as `Microsoft.Compute/snapshots`, with `*`; `operations` for status URLs.
    #[serde(default = "any", rename = "type")]
    pub target: String,
    /// Name of the resource, with `*`.
    #[serde(default = "any")]
    pub name: String,
    /// Verb behind the name, such as `start`, with `*`. Unset: no verb is asked for.
    #[serde(default)]
    pub action: Option<String>,
    /// How many requests that fit pass first.
    #[serde(default)]
    pub skip: u64,
    /// How many are hit then.
    #[serde(default = "once")]
    pub times: u64,
    /// How likely each is hit.
    #[serde(default = "certain")]
    pub probability: f64,
}

fn any() -> String {
    "*".to_owned()
}
fn once() -> u64 {
    1
}
fn certain() -> f64 {
    1.0
}

/// The kinds of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The work is done, and the operation ends Failed.
    AppliedButFailed,
    /// The operation ends Succeeded, and nothing was done.
    SuccessButNotApplied,
    /// The connection breaks after the request was carried out.
    ResetAfterProcessing,
    /// The operation fails: no hardware.
    AllocationFailed,
    /// The operation fails: no quota.
    QuotaExceeded,
    /// The operation fails: no zone-redundant storage in the region.
    ZrsNotSupported,
    /// The status URL answers 404.
    StatusUrlMissing,
    /// A read gives what was there before the last write.
    StaleRead,
    /// ARM's own 429.
    ThrottledArm,
    /// Compute's 429.
    ThrottledCompute,
    /// All tokens so far expire now.
    TokenExpires,
    /// The operation fails because another one superseded it.
    Preempted,
    /// The metadata service answers 410: it is being updated.
    ImdsGone,
    /// The metadata service answers 429.
    ImdsThrottled,
}

impl Kind {
    /// What becomes of the operation that the request starts.
    pub(crate) fn fate(self) -> Fate {
        match self {
            Self::AppliedButFailed => Fate::FailsAfterAll(ArmError::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "InternalExecutionError",
                "An internal execution error occurred. Please retry later.",
            )),
            Self::AllocationFailed => Fate::Fails(ArmError::conflict(
                "AllocationFailed",
                "Allocation failed. We do not have sufficient capacity for the requested VM size in this region. Read more about improving likelihood of allocation success at https://aka.ms/allocation-guidance",
            )),
            Self::QuotaExceeded => Fate::Fails(ArmError::conflict(
                "QuotaExceeded",
                "Operation could not be completed as it results in exceeding approved Total Regional Cores quota.",
            )),
            Self::ZrsNotSupported => Fate::Fails(zrs_not_supported("this region")),
            Self::Preempted => Fate::Fails(ArmError::conflict(
                "OperationPreempted",
                "Operation execution has been preempted by a more recent operation.",
            )),
            _ => Fate::Normal,
        }
    }
}

/// How Azure tells that a region has no zone-redundant storage.
pub(crate) fn zrs_not_supported(region: &str) -> ArmError {
    ArmError::bad(
        "InvalidParameter",
        format!("The replication to region {region} failed, detail:ZRS is not supported in region {region}."),
    )
}

/// What a rule looks at.
#[derive(Debug, Clone, Default)]
pub(crate) struct Matter {
    method: String,
    target: String,
    name: String,
    action: Option<String>,
}

impl Matter {
    pub(crate) fn of(call: &Call, target: &Target) -> Self {
        let method = call.method.to_string();
        let (kind, name, action) = match target {
            Target::Resource(id) => (id.kind.full(), id.names.join("/"), None),
            Target::Action { id, action } => (id.kind.full(), id.names.join("/"), Some(action.clone())),
            Target::Collection { kind, parents, .. } => (kind.full(), parents.join("/"), None),
            Target::Operation { id, .. } => ("operations".to_owned(), id.clone(), None),
            Target::Group { group, .. } => ("resourceGroups".to_owned(), group.clone(), None),
            _ => (String::new(), String::new(), None),
        };
        Self { method, target: kind, name, action }
    }
}

/// A plan at work: it counts.
#[derive(Debug)]
pub(crate) struct Faults {
    rules: Vec<(Rule, u64)>,
    seed: u64,
}

impl Faults {
    pub(crate) fn new(plan: FaultPlan, seed: u64) -> Self {
        Self { rules: plan.faults.into_iter().map(|rule| (rule, 0)).collect(), seed }
    }

    /// The fault that hits a request to ARM.
    pub(crate) fn hit(&mut self, matter: &Matter) -> Option<Kind> {
        self.find(|rule| {
            let action_fits = match (&rule.action, &matter.action) {
                (None, None) => true,
                (Some(pattern), Some(action)) => matches(pattern, action),
                _ => false,
            };
            !rule.kind.is_imds()
                && matches(&rule.method, &matter.method)
                && matches(&rule.target, &matter.target)
                && matches(&rule.name, &matter.name)
                && action_fits
        })
    }

    /// The rules that have not hit any request.
    pub(crate) fn unfired(&self) -> Vec<Rule> {
        self.rules.iter().filter(|(rule, seen)| *seen <= rule.skip).map(|(rule, _)| rule.clone()).collect()
    }

    /// The fault that hits a request to the metadata service; a rule's name is matched with the path.
    pub(crate) fn hit_imds(&mut self, path: &str) -> Option<Kind> {
        self.find(|rule| rule.kind.is_imds() && matches(&rule.name, path))
    }

    fn find(&mut self, fits: impl Fn(&Rule) -> bool) -> Option<Kind> {
        for (index, (rule, seen)) in self.rules.iter_mut().enumerate() {
            if !fits(rule) {
                continue;
            }
            *seen += 1;
            if *seen > rule.skip
                && *seen <= rule.skip + rule.times
                && chance(self.seed, index as u64, *seen, rule.probability)
            {
                return Some(rule.kind);
            }
        }
        None
    }
}

impl Kind {
    fn is_imds(self) -> bool {
        matches!(self, Self::ImdsGone | Self::ImdsThrottled)
    }
}

impl FaultPlan {
    /// Reads a fault file (YAML). `name` stands in messages.
    pub fn parse(name: &str, text: &str) -> Result<Self, String> {
        let plan: Self = yaml::parse(name, text)?;
        for (index, rule) in plan.faults.iter().enumerate() {
            if !(0.0..=1.0).contains(&rule.probability) {
                return Err(format!(
                    "{name}: faults[{index}].probability: {} is not between 0 and 1",
                    rule.probability
                ));
            }
        }
        Ok(plan)
    }

    /// Whether a rule needs what resources were before their last write.
    pub(crate) fn reads_stale(&self) -> bool {
        self.faults.iter().any(|rule| rule.kind == Kind::StaleRead)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matter(method: &str, target: &str) -> Matter {
        Matter { method: method.into(), target: target.into(), name: "n".into(), action: None }
    }

    #[test]
    fn a_rule_skips_then_hits_then_is_spent() {
        let plan =
            FaultPlan::parse("f", "faults: [{kind: preempted, method: PUT, type: '*/snapshots', skip: 1, times: 2}]")
                .expect("a plan");
        let mut faults = Faults::new(plan, 1);
        let mut hits = || faults.hit(&matter("PUT", "Microsoft.Compute/snapshots")).is_some();
        assert_eq!([hits(), hits(), hits(), hits()], [false, true, true, false]);
        assert_eq!(faults.hit(&matter("GET", "Microsoft.Compute/snapshots")), None);
    }

    #[test]
    fn the_same_seed_draws_the_same_faults() {
        let plan =
            FaultPlan::parse("f", "faults: [{kind: throttled-arm, times: 1000, probability: 0.3}]").expect("a plan");
        let draw = |seed| {
            let mut faults = Faults::new(plan.clone(), seed);
            (0..100).map(|_| faults.hit(&matter("GET", "x")).is_some()).collect::<Vec<_>>()
        };
        assert_eq!(draw(5), draw(5));
        assert_ne!(draw(5), draw(6));
    }

    #[test]
    fn an_unknown_kind_is_named_with_its_place() {
        let error = FaultPlan::parse("f.yaml", "faults:\n- kind: exploded\n").expect_err("unknown");
        assert!(error.contains("f.yaml") && error.contains("exploded"), "{error}");
    }
}
