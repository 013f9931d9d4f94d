//! `kiln rollout create`.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use kiln_fleet_api::{Effect, Freeze, ImageVersion, NodeConfig, Pool, Rollout, RolloutPolicy, RolloutSpec, Target};
use kiln_node_config::changes;
use kube::ResourceExt as _;
use serde::Serialize;

use super::{Create, Replacement};
use crate::failure::Failure;
use crate::fleet::document::{self, Loaded, Stored};
use crate::fleet::objects::{existing, freezes, is_active, is_open, list, pools, share_pool};
use crate::fleet::{CREATED_BY, Session, failure};

/// Rollouts with the default name that are tried: the name itself, then `-2`, `-3` and so on.
const NAMES: u32 = 100;

/// Result of the command.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    rollout: String,
    /// Whether it did not exist before.
    created: bool,
    dry_run: bool,
    node_config: String,
    digest: String,
    node_config_created: bool,
    pools: Vec<PoolEffect>,
    /// Reasons why the rollout does not start now.
    notes: Vec<String>,
}

/// Result of the command with an image version.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Replaced {
    rollout: String,
    /// Whether it did not exist before.
    created: bool,
    dry_run: bool,
    image_version: String,
    /// Reasons why the rollout does not start now.
    notes: Vec<String>,
}

/// The effect of the document on the nodes of a pool.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PoolEffect {
    pool: String,
    /// None if the pool has no target, or its document is not in the cluster.
    effect: Option<Effect>,
    changed_fields: usize,
}

pub(super) async fn run(session: &Session, verb: &Create, document: Option<&Loaded>) -> Result<(), Failure> {
    let pools = pools(session, &unique(&verb.pools)).await?;
    let names: Vec<String> = pools.iter().map(kube::ResourceExt::name_any).collect();
    if let Some(policy) = &verb.policy {
        existing::<RolloutPolicy>(session, policy).await?;
    }
    if let Some(version) = &verb.image_version {
        return replace(session, verb, &pools, version).await;
    }
    let (config, stored) = match (document, &verb.node_config) {
        (Some(document), _) => {
            refuse_rejected(&pools, &document.digest)?;
            (document.config.clone(), document::store(session, document, verb.dry_run).await?)
        }
        (None, Some(name)) => {
            let config = document::parse(&existing::<NodeConfig>(session, name).await?)?;
            let stored = Stored { name: name.clone(), digest: config.hash(), created: false };
            refuse_rejected(&pools, &stored.digest)?;
            (config, stored)
        }
        (None, None) => return Err(Failure::input("`--file` or `--node-config` is required")),
    };
    let mut effects = Vec::new();
    for pool in &pools {
        effects.push(effect(session, pool, &config).await?);
    }
    let rollouts = session.fleet.list::<Rollout>().await.map_err(failure)?;
    let spec = spec(verb, &names, &stored);
    let notes = notes(session, verb, &pools, &rollouts, &effects).await?;
    let (name, created) = match name(verb, &rollouts, &spec, &stored.name)? {
        Name::Open(name) => (name, false),
        Name::New(name) => {
            let mut object = Rollout::new(&name, spec);
            object.annotations_mut().insert(CREATED_BY.to_owned(), session.who.clone());
            session.fleet.create(&object, verb.dry_run).await.map_err(failure)?;
            (name, true)
        }
    };
    let result = Answer {
        rollout: name,
        created,
        dry_run: verb.dry_run,
        node_config: stored.name,
        digest: stored.digest,
        node_config_created: stored.created,
        pools: effects,
        notes,
    };
    session.print(&result, text)
}

/// Creates a rollout with an image version.
async fn replace(session: &Session, verb: &Create, pools: &[Pool], version: &str) -> Result<(), Failure> {
    let names: Vec<String> = pools.iter().map(kube::ResourceExt::name_any).collect();
    let object = existing::<ImageVersion>(session, version).await?;
    if names != [object.spec.pool.clone()] {
        return Err(Failure::input(format_args!(
            "ImageVersion `{version}` belongs to pool `{}`; use `--pool {}` only",
            object.spec.pool, object.spec.pool
        )));
    }
    let status = object.status.unwrap_or_default();
    if let Some(rejected) = status.rejected {
        return Err(Failure::failed(format_args!("ImageVersion `{version}` is rejected: {}", rejected.why))
            .hint("create another version with a prototype run"));
    }
    if !status.proven {
        return Err(Failure::failed(format_args!(
            "ImageVersion `{version}` is not proven: no canary of it became Ready"
        ))
        .hint("run the Prototype of the pool with a canary, and roll out its version"));
    }
    let rollouts = session.fleet.list::<Rollout>().await.map_err(failure)?;
    let spec = RolloutSpec { target: Target::image(version), ..spec(verb, &names, &Stored::default()) };
    let notes = notes(session, verb, pools, &rollouts, &[]).await?;
    let (name, created) = match name(verb, &rollouts, &spec, version)? {
        Name::Open(name) => (name, false),
        Name::New(name) => {
            let mut object = Rollout::new(&name, spec);
            object.annotations_mut().insert(CREATED_BY.to_owned(), session.who.clone());
            session.fleet.create(&object, verb.dry_run).await.map_err(failure)?;
            (name, true)
        }
    };
    let result = Replaced { rollout: name, created, dry_run: verb.dry_run, image_version: version.to_owned(), notes };
    session.print(&result, |result| {
        let would = if result.dry_run { "would be " } else { "" };
        let what = if result.created { format!("{would}created") } else { "exists and already does this".to_owned() };
        let mut text = format!("Rollout {}: {what}\n", result.rollout);
        for note in &result.notes {
            let _ = writeln!(text, "note: {note}");
        }
        if !result.dry_run {
            let _ = writeln!(text, "watch it with `kiln rollout status {} --watch`", result.rollout);
        }
        text
    })
}

/// Names in their order, each once.
fn unique(names: &[String]) -> Vec<String> {
    let mut seen = BTreeSet::new();
    names.iter().filter(|name| seen.insert(name.as_str())).cloned().collect()
}

fn refuse_rejected(pools: &[Pool], digest: &str) -> Result<(), Failure> {
    let rejects =
        |pool: &&Pool| pool.status.as_ref().is_some_and(|status| status.rejected.iter().any(|one| one == digest));
    match pools.iter().find(rejects) {
        Some(pool) => Err(Failure::failed(format_args!(
            "pool `{}` rejects this document, because it failed there before",
            pool.name_any()
        ))
        .hint("change the document; `kiln rollout history --pool` names the rollout that failed")),
        None => Ok(()),
    }
}

/// Compares the document with the current one of a pool.
async fn effect(session: &Session, pool: &Pool, config: &kiln_node_config::NodeConfig) -> Result<PoolEffect, Failure> {
    let target = pool.status.as_ref().and_then(|status| status.target.as_ref());
    let name = target.map(|target| &target.node_config).or(pool.spec.node_config.as_ref());
    let current = match name {
        Some(name) => session.fleet.get::<NodeConfig>(name).await.map_err(failure)?,
        None => None,
    };
    let changes = current.and_then(|object| document::parse(&object).ok()).map(|from| changes::between(&from, config));
    Ok(PoolEffect {
        pool: pool.name_any(),
        effect: changes.as_ref().map(|changes| changes::highest_effect(changes)),
        changed_fields: changes.map_or(0, |changes| changes.len()),
    })
}

fn spec(verb: &Create, pools: &[String], stored: &Stored) -> RolloutSpec {
    RolloutSpec {
        pools: pools.to_vec(),
        target: Target::document(&stored.name, Some(stored.digest.clone())),
        policy_ref: verb.policy.clone(),
        replacement: verb.replacement.into(),
        on_failure: verb.on_failure.into(),
        paused: verb.paused,
        ..RolloutSpec::default()
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Name {
    /// An open rollout already does this.
    Open(String),
    New(String),
}

/// The name of the new rollout. The same command twice finds the rollout of the first; a new rollout of a document that was rolled out before gets a number.
fn name(verb: &Create, rollouts: &[Rollout], spec: &RolloutSpec, default: &str) -> Result<Name, Failure> {
    let find = |name: &str| rollouts.iter().find(|rollout| rollout.name_any() == name);
    if let Some(name) = &verb.name {
        return match find(name) {
            None => Ok(Name::New(name.clone())),
            Some(existing) if is_open(existing) && does_the_same(existing, spec) => Ok(Name::Open(name.clone())),
            Some(_) => {
                Err(Failure::failed(format_args!("Rollout `{name}` exists and does something else or has ended"))
                    .hint(format_args!("choose another `--name`; `kiln rollout status {name}` shows the existing one")))
            }
        };
    }
    if let Some(open) = rollouts.iter().find(|rollout| is_open(rollout) && does_the_same(rollout, spec)) {
        return Ok(Name::Open(open.name_any()));
    }
    let mut names =
        (1..=NAMES).map(|number| if number == 1 { default.to_owned() } else { format!("{default}-{number}") });
    match names.find(|name| find(name).is_none()) {
        Some(name) => Ok(Name::New(name)),
        None => Err(Failure::failed(format_args!("{NAMES} rollouts are named after `{default}`")).hint("use `--name`")),
    }
}

fn does_the_same(rollout: &Rollout, spec: &RolloutSpec) -> bool {
    !rollout.spec.aborted && rollout.spec.target == spec.target && rollout.spec.pools == spec.pools
}

/// Reasons why the rollout does not start, or cannot do what the document needs.
async fn notes(
    session: &Session,
    verb: &Create,
    pools: &[Pool],
    rollouts: &[Rollout],
    effects: &[PoolEffect],
) -> Result<Vec<String>, Failure> {
    let names: Vec<String> = pools.iter().map(kube::ResourceExt::name_any).collect();
    let mut notes = Vec::new();
    for pool in pools.iter().filter(|pool| pool.spec.paused) {
        notes.push(format!("pool `{}` is paused; no node of it starts", pool.name_any()));
    }
    let older = rollouts.iter().filter(|rollout| is_open(rollout) && share_pool(&rollout.spec.pools, &names));
    let older: Vec<String> = older.map(kube::ResourceExt::name_any).collect();
    if !older.is_empty() {
        notes.push(format!("it starts after the open rollouts of the same pools: {}", list(&older)));
    }
    let freezing = session.fleet.list::<Freeze>().await.map_err(failure)?;
    let now = session.now();
    for freeze in freezing.iter().filter(|freeze| is_active(freeze, now) && freezes(freeze, &names)) {
        notes.push(format!("freeze `{}` stops it: {}", freeze.name_any(), freeze.spec.reason));
    }
    for one in effects {
        match one.effect {
            Some(Effect::Replace) => {
                notes.push(format!("pool `{}`: the change needs new nodes, so every node will fail", one.pool));
            }
            Some(effect @ (Effect::Drain | Effect::Reboot)) if matches!(verb.replacement, Replacement::Never) => {
                notes.push(format!(
                    "pool `{}`: the change needs `{effect}`, which `--replacement never` forbids",
                    one.pool
                ));
            }
            _ => {}
        }
    }
    Ok(notes)
}

fn text(result: &Answer) -> String {
    let Answer { rollout, node_config, .. } = result;
    let would = if result.dry_run { "would be " } else { "" };
    let mut text = String::new();
    let config = if result.node_config_created { format!("{would}created") } else { "exists".to_owned() };
    let _ = writeln!(text, "NodeConfig {node_config}: {config}");
    let _ = if result.created {
        writeln!(text, "Rollout {rollout}: {would}created")
    } else {
        writeln!(text, "Rollout {rollout}: exists and already brings this document to these pools")
    };
    for pool in &result.pools {
        let _ = match pool.effect {
            Some(effect) => {
                writeln!(text, "pool {}: {} fields change, effect {effect}", pool.pool, pool.changed_fields)
            }
            None => {
                writeln!(text, "pool {}: no earlier document to compare with; each node reports the effect", pool.pool)
            }
        };
    }
    for note in &result.notes {
        let _ = writeln!(text, "note: {note}");
    }
    if !result.dry_run {
        let _ = writeln!(text, "watch it with `kiln rollout status {rollout} --watch`");
    }
    text
}

#[cfg(test)]
mod tests {
    use kiln_fleet_api::{RolloutPhase, RolloutStatus};

    use super::*;

    fn verb(name: Option<&str>) -> Create {
        Create {
            file: None,
            node_config: Some("web-1".to_owned()),
            image_version: None,
            pools: vec!["web".to_owned()],
            name: name.map(ToOwned::to_owned),
            policy: None,
            on_failure: super::super::OnFailure::RollBack,
            replacement: Replacement::WhenNeeded,
            paused: false,
            dry_run: false,
        }
    }

    fn rollout(name: &str, digest: &str, phase: RolloutPhase) -> Rollout {
        let target = Target::document("web-1", Some(digest.to_owned()));
        let mut rollout =
            Rollout::new(name, RolloutSpec { pools: vec!["web".to_owned()], target, ..RolloutSpec::default() });
        rollout.status = Some(RolloutStatus { phase, ..RolloutStatus::default() });
        rollout
    }

    fn chosen(given: Option<&str>, existing: &[Rollout]) -> Result<Name, String> {
        let spec = rollout("", "d", RolloutPhase::Pending).spec;
        name(&verb(given), existing, &spec, "web-1").map_err(|failure| failure.message)
    }

    #[test]
    fn same_command_finds_the_open_rollout_of_the_first() {
        let open = rollout("other-name", "d", RolloutPhase::Progressing);
        assert_eq!(chosen(None, std::slice::from_ref(&open)), Ok(Name::Open("other-name".to_owned())));
        assert_eq!(chosen(Some("other-name"), &[open]), Ok(Name::Open("other-name".to_owned())));
        assert_eq!(chosen(None, &[]), Ok(Name::New("web-1".to_owned())));
    }

    #[test]
    fn repeated_rollout_of_an_ended_one_gets_a_number() {
        let ended = [rollout("web-1", "d", RolloutPhase::RolledBack), rollout("web-1-2", "d", RolloutPhase::Complete)];
        assert_eq!(chosen(None, &ended), Ok(Name::New("web-1-3".to_owned())));
        assert!(chosen(Some("web-1"), &ended).is_err_and(|message| message.contains("exists")));
    }

    #[test]
    fn name_of_a_rollout_with_another_document_is_refused() {
        let other = rollout("mine", "other", RolloutPhase::Progressing);
        assert!(chosen(Some("mine"), &[other]).is_err());
    }
}
