//! Fault injection. A plan is a list of rules; the same plan, seed and requests give the same faults.

use http::StatusCode;
use serde::{Deserialize, Serialize};

use crate::arm::call::Call;
use crate::arm::error::ArmError;
use crate::arm::id::Target;
use crate::world::operation::PlannedOutcome;
use crate::world::roles::matches;
use crate::yaml;
use kiln_sim_store::chance;

/// A fault plan as in its file.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FaultPlan {
    /// The first matching rule applies.
    #[serde(default)]
    pub faults: Vec<Rule>,
}

/// A fault and the requests that it applies to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rule {
    pub kind: FaultKind,
    /// HTTP method, `*` for any.
    #[serde(default = "any")]
    pub method: String,
    /// Resource type such as `Microsoft.Compute/snapshots`, with `*`; `operations` for status URLs.
    #[serde(default = "any", rename = "type")]
    pub target: String,
    /// Name of the resource, with `*`.
    #[serde(default = "any")]
    pub name: String,
    /// Action after the name, such as `start`, with `*`. Unset: requests without an action.
    #[serde(default)]
    pub action: Option<String>,
    /// The number of matching requests to skip first.
    #[serde(default)]
    pub skip: u64,
    /// The number of requests to fail after that.
    #[serde(default = "once")]
    pub times: u64,
    /// The probability for each of them.
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

/// A kind of fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultKind {
    /// The operation takes effect but ends `Failed`.
    AppliedButFailed,
    /// The operation ends `Succeeded` without any effect.
    SuccessButNotApplied,
    /// The connection breaks after the request was processed.
    ResetAfterProcessing,
    /// The operation fails for lack of capacity.
    AllocationFailed,
    /// The operation fails because of the quota.
    QuotaExceeded,
    /// The operation fails because the region has no zone-redundant storage.
    ZrsNotSupported,
    /// The status URL returns 404.
    StatusUrlMissing,
    /// A read returns the state before the last write.
    StaleRead,
    /// ARM's own 429.
    ThrottledArm,
    /// Compute's 429.
    ThrottledCompute,
    /// All tokens issued so far expire.
    TokenExpires,
    /// The operation fails because another one superseded it.
    Preempted,
    /// The metadata service returns 410, as during an update of it.
    ImdsGone,
    /// The metadata service returns 429.
    ImdsThrottled,
}

impl FaultKind {
    /// The outcome of the operation that the request starts.
    pub(crate) fn planned_outcome(self) -> PlannedOutcome {
        match self {
            Self::AppliedButFailed => PlannedOutcome::FailsAfterApplying(ArmError::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "InternalExecutionError",
                "An internal execution error occurred. Please retry later.",
            )),
            Self::AllocationFailed => PlannedOutcome::Fails(ArmError::conflict(
                "AllocationFailed",
                "Allocation failed. We do not have sufficient capacity for the requested VM size in this region. Read more about improving likelihood of allocation success at https://aka.ms/allocation-guidance",
            )),
            Self::QuotaExceeded => PlannedOutcome::Fails(ArmError::conflict(
                "QuotaExceeded",
                "Operation could not be completed as it results in exceeding approved Total Regional Cores quota.",
            )),
            Self::ZrsNotSupported => PlannedOutcome::Fails(zrs_not_supported("this region")),
            Self::Preempted => PlannedOutcome::Fails(ArmError::conflict(
                "OperationPreempted",
                "Operation execution has been preempted by a more recent operation.",
            )),
            _ => PlannedOutcome::Normal,
        }
    }
}

/// Azure's error for a region without zone-redundant storage.
pub(crate) fn zrs_not_supported(region: &str) -> ArmError {
    ArmError::bad(
        "InvalidParameter",
        format!("The replication to region {region} failed, detail:ZRS is not supported in region {region}."),
    )
}

/// The properties of a request that rules match.
#[derive(Debug, Clone, Default)]
pub(crate) struct RequestSummary {
    method: String,
    target: String,
    name: String,
    action: Option<String>,
}

impl RequestSummary {
    pub(crate) fn from_call(call: &Call, target: &Target) -> Self {
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

/// A fault plan with its counters.
#[derive(Debug)]
pub(crate) struct Faults {
    rules: Vec<(Rule, u64)>,
    seed: u64,
}

impl Faults {
    pub(crate) fn new(plan: FaultPlan, seed: u64) -> Self {
        Self { rules: plan.faults.into_iter().map(|rule| (rule, 0)).collect(), seed }
    }

    /// Returns the fault for a request to ARM.
    pub(crate) fn hit(&mut self, request: &RequestSummary) -> Option<FaultKind> {
        self.find(|rule| {
            let action_fits = match (&rule.action, &request.action) {
                (None, None) => true,
                (Some(pattern), Some(action)) => matches(pattern, action),
                _ => false,
            };
            !rule.kind.is_imds()
                && matches(&rule.method, &request.method)
                && matches(&rule.target, &request.target)
                && matches(&rule.name, &request.name)
                && action_fits
        })
    }

    /// Returns the rules that have not affected any request.
    pub(crate) fn unfired(&self) -> Vec<Rule> {
        self.rules.iter().filter(|(rule, seen)| *seen <= rule.skip).map(|(rule, _)| rule.clone()).collect()
    }

    /// Returns the fault for a request to the metadata service. A rule's name is matched with the path.
    pub(crate) fn hit_imds(&mut self, path: &str) -> Option<FaultKind> {
        self.find(|rule| rule.kind.is_imds() && matches(&rule.name, path))
    }

    fn find(&mut self, fits: impl Fn(&Rule) -> bool) -> Option<FaultKind> {
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

impl FaultKind {
    fn is_imds(self) -> bool {
        matches!(self, Self::ImdsGone | Self::ImdsThrottled)
    }
}

impl FaultPlan {
    /// Parses a fault file (YAML). `name` is used in error messages.
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

    /// Whether a rule needs the previous versions of resources.
    pub(crate) fn reads_stale(&self) -> bool {
        self.faults.iter().any(|rule| rule.kind == FaultKind::StaleRead)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(method: &str, target: &str) -> RequestSummary {
        RequestSummary { method: method.into(), target: target.into(), name: "n".into(), action: None }
    }

    #[test]
    fn rule_skips_then_applies_then_is_used_up() {
        let plan =
            FaultPlan::parse("f", "faults: [{kind: preempted, method: PUT, type: '*/snapshots', skip: 1, times: 2}]")
                .expect("a plan");
        let mut faults = Faults::new(plan, 1);
        let mut hits = || faults.hit(&request("PUT", "Microsoft.Compute/snapshots")).is_some();
        assert_eq!([hits(), hits(), hits(), hits()], [false, true, true, false]);
        assert_eq!(faults.hit(&request("GET", "Microsoft.Compute/snapshots")), None);
    }

    #[test]
    fn same_seed_gives_the_same_faults() {
        let plan =
            FaultPlan::parse("f", "faults: [{kind: throttled-arm, times: 1000, probability: 0.3}]").expect("a plan");
        let draw = |seed| {
            let mut faults = Faults::new(plan.clone(), seed);
            (0..100).map(|_| faults.hit(&request("GET", "x")).is_some()).collect::<Vec<_>>()
        };
        assert_eq!(draw(5), draw(5));
        assert_ne!(draw(5), draw(6));
    }

    #[test]
    fn unknown_kind_error_has_the_position() {
        let error = FaultPlan::parse("f.yaml", "faults:\n- kind: exploded\n").expect_err("unknown");
        assert!(error.contains("f.yaml") && error.contains("exploded"), "{error}");
    }
}
