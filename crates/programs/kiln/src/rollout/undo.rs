//! `kiln rollout undo`.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use kiln_fleet_api::{OnFailure, Rollout, RolloutPhase, RolloutPolicy, RolloutSpec, RolloutStatus, Target};
use kube::ResourceExt as _;
use serde::Serialize;
use serde_json::json;

use super::{Undo, change};
use crate::failure::Failure;
use crate::fleet::objects::{existing, is_open, status};
use crate::fleet::{CREATED_BY, Session, failure};

/// Result of the command.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Undone {
    rollout: String,
    /// Whether the rollout had to be aborted first.
    aborted: bool,
    dry_run: bool,
    created: Vec<Back>,
    /// Pools that had no target before.
    without_previous: Vec<String>,
}

/// A rollout to a previous target.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Back {
    name: String,
    pools: Vec<String>,
    #[serde(flatten)]
    target: Target,
}

pub(super) async fn run(session: &Session, verb: &Undo) -> Result<(), Failure> {
    let name = &verb.name;
    let rollout: Rollout = existing(session, name).await?;
    if let Some(policy) = &verb.policy {
        existing::<RolloutPolicy>(session, policy).await?;
    }
    let status = status(&rollout);
    let back = plan(&rollout, &status)?;
    let must_abort = is_open(&rollout) && !rollout.spec.aborted;
    if must_abort && !verb.dry_run {
        change::set(session, name, "undo", json!({"aborted": true})).await?;
    }
    let taken: Vec<String> =
        session.fleet.list::<Rollout>().await.map_err(failure)?.iter().map(kube::ResourceExt::name_any).collect();
    let mut created = Vec::new();
    for mut one in back {
        one.name = free(name, &taken, &created);
        session.fleet.create(&object(session, verb, &rollout, &one), verb.dry_run).await.map_err(failure)?;
        created.push(one);
    }
    let without_previous = rollout.spec.pools.iter().filter(|pool| !status.previous.contains_key(*pool)).cloned();
    let result = Undone {
        rollout: name.clone(),
        aborted: must_abort,
        dry_run: verb.dry_run,
        created,
        without_previous: without_previous.collect(),
    };
    session.print(&result, text)
}

/// One rollout for each different previous target.
fn plan(rollout: &Rollout, status: &RolloutStatus) -> Result<Vec<Back>, Failure> {
    let name = rollout.name_any();
    if rollout.spec.target.image_version.is_some() {
        let pool = rollout.spec.pools.first().cloned().unwrap_or_default();
        return Err(Failure::failed(format_args!(
            "rollout `{name}` replaced machines, which `undo` cannot bring back"
        ))
        .hint(format_args!(
            "run `kiln prototype rollback` for the scale set of pool `{pool}`, then `kiln prototype refresh`"
        )));
    }
    match status.phase {
        RolloutPhase::RolledBack => {
            return Err(Failure::failed(format_args!("rollout `{name}` is already rolled back")));
        }
        RolloutPhase::RollingBack => {
            return Err(Failure::failed(format_args!("rollout `{name}` is being rolled back"))
                .hint(format_args!("`kiln rollout status {name} --watch` follows it")));
        }
        _ => {}
    }
    let mut targets: BTreeMap<(&str, Option<&str>), Vec<String>> = BTreeMap::new();
    for (pool, target) in &status.previous {
        targets.entry((&target.node_config, target.digest.as_deref())).or_default().push(pool.clone());
    }
    if targets.is_empty() {
        let why = if status.observed_generation.is_none() {
            "the operator has not started it"
        } else {
            "its pools had no target before"
        };
        return Err(Failure::failed(format_args!("rollout `{name}` has nothing to return to: {why}"))
            .hint(format_args!("stop it with `kiln rollout abort {name}`, or roll out another document")));
    }
    let back = targets.into_iter().map(|((node_config, digest), pools)| {
        let target = Target::document(node_config, digest.map(ToOwned::to_owned));
        Back { name: String::new(), pools, target }
    });
    Ok(back.collect())
}

fn free(name: &str, taken: &[String], created: &[Back]) -> String {
    let is_free = |name: &String| !taken.contains(name) && created.iter().all(|one| one.name != *name);
    let numbered = (2..).map(|number| format!("{name}-undo-{number}"));
    std::iter::once(format!("{name}-undo")).chain(numbered).find(is_free).unwrap_or_default()
}

/// The way back has the policy of the way there. It never rolls back, because that would bring back what is being undone.
fn object(session: &Session, verb: &Undo, rollout: &Rollout, back: &Back) -> Rollout {
    let own = verb.policy.is_none();
    let spec = RolloutSpec {
        pools: back.pools.clone(),
        target: back.target.clone(),
        policy_ref: verb.policy.clone().or_else(|| rollout.spec.policy_ref.clone()),
        policy: rollout.spec.policy.clone().filter(|_| own),
        replacement: rollout.spec.replacement,
        on_failure: OnFailure::Halt,
        ..RolloutSpec::default()
    };
    let mut object = Rollout::new(&back.name, spec);
    object.annotations_mut().insert(CREATED_BY.to_owned(), session.who.clone());
    object
}

fn text(result: &Undone) -> String {
    let would = if result.dry_run { "would be " } else { "" };
    let mut text = String::new();
    if result.aborted {
        let _ = writeln!(text, "Rollout {}: {would}aborted; its nodes in flight are finished first", result.rollout);
    }
    for back in &result.created {
        let Back { name, pools, target } = back;
        let _ =
            writeln!(text, "Rollout {name}: {would}created, returns {} to {}", pools.join(", "), target.node_config);
    }
    for pool in &result.without_previous {
        let _ = writeln!(text, "note: pool `{pool}` had no target before and keeps what it has");
    }
    if let (Some(first), false) = (result.created.first(), result.dry_run) {
        let _ = writeln!(text, "watch it with `kiln rollout status {} --watch`", first.name);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rollout(phase: RolloutPhase, previous: &[(&str, &str)]) -> (Rollout, RolloutStatus) {
        let target = |name: &str| Target::document(name, Some(name.to_owned()));
        let previous = previous.iter().map(|(pool, name)| ((*pool).to_owned(), target(name))).collect();
        let status = RolloutStatus { phase, previous, observed_generation: Some(1), ..RolloutStatus::default() };
        (Rollout::new("r", RolloutSpec::default()), status)
    }

    fn planned(phase: RolloutPhase, previous: &[(&str, &str)]) -> Result<Vec<(String, Vec<String>)>, String> {
        let (rollout, status) = rollout(phase, previous);
        let back = plan(&rollout, &status).map_err(|failure| failure.message)?;
        Ok(back.into_iter().map(|one| (one.target.node_config, one.pools)).collect())
    }

    #[test]
    fn pools_with_the_same_previous_target_share_a_rollout() {
        let back = planned(RolloutPhase::Complete, &[("a", "old"), ("b", "older"), ("c", "old")]);
        let pools = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(back, Ok(vec![("old".to_owned(), pools(&["a", "c"])), ("older".to_owned(), pools(&["b"]))]));
    }

    #[test]
    fn rollout_that_went_back_or_has_no_previous_target_is_refused() {
        for phase in [RolloutPhase::RolledBack, RolloutPhase::RollingBack] {
            assert!(planned(phase, &[("a", "old")]).is_err_and(|message| message.contains("rolled back")), "{phase:?}");
        }
        assert!(planned(RolloutPhase::Complete, &[]).is_err_and(|message| message.contains("no target before")));
    }

    #[test]
    fn name_is_numbered_when_it_is_taken() {
        let back = |name: &str| Back { name: name.to_owned(), pools: Vec::new(), target: Target::default() };
        assert_eq!(free("r", &[], &[]), "r-undo");
        assert_eq!(free("r", &["r-undo".to_owned()], &[back("r-undo-2")]), "r-undo-3");
    }
}
