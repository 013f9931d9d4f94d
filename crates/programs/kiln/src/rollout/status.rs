//! `kiln rollout status`.

use std::collections::BTreeSet;
use std::io::IsTerminal as _;
use std::time::Duration;

use kiln_fleet_api::{NodeState, Rollout};
use kube::ResourceExt as _;
use serde_json::json;

use super::text::{failure as ended_badly, lines, page};
use super::view::{View, view};
use super::{Status, history};
use crate::answer::{self, Output};
use crate::failure::Failure;
use crate::fleet::objects::{existing, is_open, list, status};
use crate::fleet::{Session, failure};

/// Nodes in flight whose state is read. A budget of more nodes at a time is rare, and the rollout has their names.
const SHOWN_NODES: usize = 20;
/// How often nodes in flight are read again while the Rollout itself does not change.
const INTERVAL: Duration = Duration::from_secs(3);
/// Moves the cursor to the first line and clears the terminal.
const CLEAR: &str = "\x1b[H\x1b[2J";

pub(super) async fn run(session: &Session, verb: &Status) -> Result<(), Failure> {
    let rollouts = match &verb.name {
        Some(name) => vec![existing::<Rollout>(session, name).await?],
        None => open_or_newest(session).await?,
    };
    match (verb.watch, rollouts.as_slice()) {
        (true, [rollout]) => return watch(session, &rollout.name_any()).await,
        (true, []) => return Err(Failure::input("the cluster has no rollouts to watch")),
        (true, several) => {
            let names: Vec<String> = several.iter().map(kube::ResourceExt::name_any).collect();
            return Err(Failure::input(format_args!("several rollouts are open: {}", list(&names)))
                .hint("name the one to watch"));
        }
        (false, _) => {}
    }
    let mut views = Vec::new();
    for rollout in &rollouts {
        views.push(read(session, rollout).await?);
    }
    session.print(&json!({"rollouts": views}), |_| {
        let pages: Vec<String> = views.iter().map(page).collect();
        if pages.is_empty() { "no rollouts\n".to_owned() } else { pages.join("\n") }
    })
}

async fn open_or_newest(session: &Session) -> Result<Vec<Rollout>, Failure> {
    let mut all = session.fleet.list::<Rollout>().await.map_err(failure)?;
    history::sort(&mut all);
    let open: Vec<Rollout> = all.iter().filter(|rollout| is_open(rollout)).cloned().collect();
    Ok(if open.is_empty() { all.into_iter().take(1).collect() } else { open })
}

/// Reads the states of the nodes in flight, and describes the rollout.
async fn read(session: &Session, rollout: &Rollout) -> Result<View, Failure> {
    let mut nodes = Vec::new();
    for name in status(rollout).in_flight.iter().take(SHOWN_NODES) {
        nodes.extend(session.fleet.get::<NodeState>(name).await.map_err(failure)?);
    }
    Ok(view(rollout, &nodes))
}

/// Follows a rollout until it ends: redraws a terminal, and prints what changed elsewhere.
async fn watch(session: &Session, name: &str) -> Result<(), Failure> {
    let is_drawn = session.output == Output::Text && std::io::stdout().is_terminal();
    let mut known = BTreeSet::new();
    let mut last = String::new();
    loop {
        let rollout = session.fleet.get::<Rollout>(name).await.map_err(failure)?;
        let rollout =
            rollout.ok_or_else(|| Failure::failed(format_args!("rollout `{name}` was deleted before it ended")))?;
        let view = read(session, &rollout).await?;
        let shown = match session.output {
            Output::Json => format!("{}\n", serde_json::to_string(&view).map_err(Failure::failed)?),
            Output::Text => page(&view),
        };
        if shown != last {
            match session.output {
                Output::Text if is_drawn => answer::print(&format!("{CLEAR}{shown}"))?,
                Output::Text => print_new(session, &view, &mut known)?,
                Output::Json => answer::print(&shown)?,
            }
            last = shown;
        }
        if view.phase.is_final() {
            return match ended_badly(&view) {
                Some(message) => {
                    Err(Failure::failed(message).hint(format_args!("`kiln rollout status {name}` says how to go back")))
                }
                None => Ok(()),
            };
        }
        let revision = rollout.resource_version().unwrap_or_default();
        session.fleet.wait_for_change::<Rollout>(name, &revision, INTERVAL).await.map_err(failure)?;
    }
}

/// Prints the lines that the previous state did not have.
fn print_new(session: &Session, view: &View, known: &mut BTreeSet<String>) -> Result<(), Failure> {
    let (now, current) = (session.now().strftime("%H:%M:%SZ").to_string(), lines(view));
    let new = current.iter().filter(|line| !known.contains(*line));
    answer::print(&new.fold(String::new(), |text, line| format!("{text}{now} {line}\n")))?;
    *known = current.into_iter().collect();
    Ok(())
}
