//! `kiln freeze`: the stop button of the fleet.

use std::fmt::Write as _;

use clap::{Args, Subcommand};
use jiff::{SignedDuration, Timestamp};
use kiln_fleet_api::{Freeze, FreezeSpec, Pool, Rollout};
use kiln_prototype::span::Span;
use kube::ResourceExt as _;
use serde::Serialize;
use serde_json::json;

use crate::bootstrap::show::table;
use crate::failure::Failure;
use crate::fleet::objects::{created_at, existing, freezes, is_active, is_open, list, owner, status};
use crate::fleet::{self, CREATED_BY, Options, Session, failure, time};

const EXAMPLES: &str = "Examples:
  kiln freeze on --reason incident-4711
      Nodes in flight are finished, and no rollout starts another node.
  kiln freeze off --all
  kiln freeze list";

const ON: &str = "Examples:
  kiln freeze on --reason incident-4711
  kiln freeze on --reason holidays --pool web --pool api --for 4d";

const OFF: &str = "Examples:
  kiln freeze off
      Removes the only freeze.
  kiln freeze off freeze-x7k2p
  kiln freeze off --all";

const LIST: &str = "Example:
  kiln freeze list";

#[derive(Debug, Args)]
#[command(arg_required_else_help = true, after_help = EXAMPLES)]
pub(crate) struct FreezeCommand {
    #[command(flatten)]
    options: Options,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Start no further node, in all pools or in some
    #[command(after_help = ON)]
    On(On),
    /// Remove a freeze, so that rollouts continue
    #[command(after_help = OFF)]
    Off(Off),
    /// List the freezes and the rollouts that wait for their end
    #[command(after_help = LIST)]
    List,
}

#[derive(Debug, Args)]
struct On {
    /// Why; every rollout that waits shows it
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// Freeze only this pool; repeat it for several pools [default: all pools]
    #[arg(long = "pool", value_name = "NAME")]
    pools: Vec<String>,
    /// End the freeze by itself after this time, such as `2h` or `4d`
    #[arg(long = "for", value_name = "TIME")]
    lasts: Option<Span>,
    /// Name of the freeze [default: generated]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
}

#[derive(Debug, Args)]
struct Off {
    /// Name of the freeze [default: the only one]
    #[arg(value_name = "NAME", conflicts_with = "all")]
    name: Option<String>,
    /// Remove all freezes
    #[arg(long)]
    all: bool,
}

pub(crate) fn run(command: &FreezeCommand, now: &dyn Fn() -> Timestamp) -> Result<(), Failure> {
    if let Verb::On(On { reason, .. }) = &command.verb
        && reason.trim().is_empty()
    {
        return Err(Failure::input("`--reason` must not be empty"));
    }
    fleet::run(&command.options, now, async |session: Session| match &command.verb {
        Verb::On(verb) => on(&session, verb).await,
        Verb::Off(verb) => off(&session, verb).await,
        Verb::List => show(&session).await,
    })
}

async fn on(session: &Session, verb: &On) -> Result<(), Failure> {
    check_pools(session, &verb.pools).await?;
    let until = match verb.lasts {
        Some(span) => {
            let span = SignedDuration::try_from(std::time::Duration::from(span)).map_err(Failure::input)?;
            Some(time(session.now().checked_add(span).map_err(Failure::input)?))
        }
        None => None,
    };
    let spec = FreezeSpec { reason: verb.reason.clone(), pools: verb.pools.clone(), until };
    let mut object = Freeze::new(verb.name.as_deref().unwrap_or_default(), spec);
    if verb.name.is_none() {
        object.metadata.name = None;
        object.metadata.generate_name = Some("freeze-".to_owned());
    }
    object.annotations_mut().insert(CREATED_BY.to_owned(), session.who.clone());
    let created = session.fleet.create(&object, false).await.map_err(|error| match &verb.name {
        Some(name) if error.is_conflict() => Failure::failed(format_args!("Freeze `{name}` already exists"))
            .hint("choose another `--name`, or leave it out; freezes add up"),
        _ => failure(error),
    })?;
    let name = created.name_any();
    // The freeze is in force. A person who may create one may be unable to read rollouts.
    let in_flight = in_flight(session, &created).await.ok();
    let value = json!({"freeze": name, "pools": verb.pools, "until": created.spec.until, "nodesInFlight": in_flight});
    session.print(&value, |_| {
        let what = if verb.pools.is_empty() { "all pools".to_owned() } else { verb.pools.join(", ") };
        let until = created.spec.until.as_ref().map_or(String::new(), |until| format!(" until {until}"));
        let flight = match in_flight {
            Some(0) => "no node is in flight".to_owned(),
            Some(1) => "1 node in flight is finished".to_owned(),
            Some(count) => format!("{count} nodes in flight are finished"),
            None => "nodes in flight are finished".to_owned(),
        };
        format!("{name}: {what} frozen{until}; {flight}; `kiln freeze off {name}` ends it\n")
    })
}

/// A freeze of a pool that does not exist would stop nothing. Who may create a freeze but not read pools can do so unchecked.
async fn check_pools(session: &Session, names: &[String]) -> Result<(), Failure> {
    for name in names {
        match session.fleet.get::<Pool>(name).await {
            Ok(Some(_)) => {}
            Ok(None) => drop(existing::<Pool>(session, name).await?),
            Err(error) if error.is_forbidden() => eprintln!("warning: cannot check whether pool `{name}` exists"),
            Err(error) => return Err(failure(error)),
        }
    }
    Ok(())
}

async fn in_flight(session: &Session, freeze: &Freeze) -> Result<usize, Failure> {
    let rollouts = session.fleet.list::<Rollout>().await.map_err(failure)?;
    let affected = rollouts.iter().filter(|rollout| is_open(rollout) && freezes(freeze, &rollout.spec.pools));
    Ok(affected.map(|rollout| status(rollout).in_flight.len()).sum())
}

async fn off(session: &Session, verb: &Off) -> Result<(), Failure> {
    let names: Vec<String> = if let Some(name) = &verb.name {
        vec![name.clone()]
    } else {
        let all = session.fleet.list::<Freeze>().await.map_err(failure)?;
        all.iter().map(kube::ResourceExt::name_any).collect()
    };
    if verb.name.is_none() && !verb.all && names.len() > 1 {
        return Err(Failure::input(format_args!("there are several freezes: {}", list(&names)))
            .hint("name one, or remove all with `--all`"));
    }
    let mut removed = Vec::new();
    for name in names {
        if session.fleet.delete::<Freeze>(&name).await.map_err(failure)? {
            removed.push(name);
        } else if verb.name.is_some() {
            return Err(Failure::input(format_args!("Freeze `{name}` does not exist"))
                .hint("`kiln freeze list` shows the freezes"));
        }
    }
    let left = session.fleet.list::<Freeze>().await.map_err(failure)?;
    let left: Vec<String> =
        left.iter().filter(|one| is_active(one, session.now())).map(kube::ResourceExt::name_any).collect();
    session.print(&json!({"removed": removed, "left": left}), |_| {
        let mut text = match removed.len() {
            0 => "no freezes\n".to_owned(),
            _ => format!("removed {}\n", list(&removed)),
        };
        if !left.is_empty() {
            let _ = writeln!(text, "note: still frozen by {}", list(&left));
        }
        text
    })
}

/// A freeze in the list.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    name: String,
    reason: String,
    pools: Vec<String>,
    until: Option<String>,
    /// Whether it has not ended.
    active: bool,
    affected: Vec<String>,
    created_at: String,
    owner: String,
}

async fn show(session: &Session) -> Result<(), Failure> {
    let all = session.fleet.list::<Freeze>().await.map_err(failure)?;
    let now = session.now();
    let mut rows: Vec<Row> = all
        .iter()
        .map(|freeze| Row {
            name: freeze.name_any(),
            reason: freeze.spec.reason.clone(),
            pools: freeze.spec.pools.clone(),
            until: freeze.spec.until.clone(),
            active: is_active(freeze, now),
            affected: freeze.status.clone().unwrap_or_default().affected,
            created_at: created_at(freeze),
            owner: owner(freeze),
        })
        .collect();
    rows.sort_by(|a, b| (&a.created_at, &a.name).cmp(&(&b.created_at, &b.name)));
    session.print(&rows, |rows| {
        if rows.is_empty() {
            return "no freezes\n".to_owned();
        }
        let rows = rows.iter().map(|row| {
            let until = match (&row.until, row.active) {
                (None, _) => "removed".to_owned(),
                (Some(until), true) => until.clone(),
                (Some(until), false) => format!("{until} (ended)"),
            };
            let pools = if row.pools.is_empty() { "all".to_owned() } else { row.pools.join(",") };
            [row.name.clone(), pools, until, row.affected.join(","), row.reason.clone(), row.owner.clone()]
        });
        table(["NAME", "POOLS", "UNTIL", "WAITING ROLLOUTS", "REASON", "CREATED BY"], rows)
    })
}
