//! The commands that only read, `rollback`, `repair`, `gc` and `release`.

use std::fmt::Write;

use jiff::Timestamp;
use kiln_engine::{RunRequest, unpause};
use kiln_prototype::rollback::{RollbackRequest, RollbackTarget};
use kiln_types::Factory;
use serde_json::json;

use super::Session;
use super::runs::failure;
use super::verbs::{CheckAccess, Diff, Gc, History, Plan, Release, Repair, Rollback, Status, Target};
use crate::failure::Failure;

pub(crate) async fn status(session: &Session<impl Factory>, verb: &Status) -> Result<(), Failure> {
    let report = kiln_engine::status(&session.context, &verb.pools.target_vmss, verb.max_age).await;
    let report = report.map_err(|error| failure(&error))?;
    session.print(&report.to_string(), &report)?;
    let old: Vec<&str> = report.too_old().map(|pool| pool.status.pool.as_str()).collect();
    if old.is_empty() {
        return Ok(());
    }
    let limit = verb.max_age.map(|limit| limit.to_string()).unwrap_or_default();
    Err(Failure::failed(format_args!("new nodes of {} get no version that is at most {limit} old", old.join(", ")))
        .hint("create a new version with `kiln prototype update` or `kiln prototype auto-update`"))
}

pub(crate) async fn check_access(session: &Session<impl Factory>, verb: &CheckAccess) -> Result<(), Failure> {
    let report = kiln_engine::check_access(&session.context, &verb.pools.target_vmss).await;
    let report = report.map_err(|error| failure(&error))?;
    session.print(&report.to_string(), &report)?;
    match report.missing().count() {
        0 => Ok(()),
        count => Err(Failure::failed(format_args!("{count} permissions that every run needs are missing")).hint(
            "docs/reference/prototype.md has the smallest role; run `kiln prototype check-access` again afterwards",
        )),
    }
}

pub(crate) async fn plan(session: &Session<impl Factory>, verb: &Plan) -> Result<(), Failure> {
    let request = RunRequest { node: verb.target_node.clone(), options: verb.run.options(&session.context).await? };
    let plan = kiln_engine::plan(&session.context, &request, !verb.no_inspect).await;
    let plan = plan.map_err(|error| failure(&error))?;
    session.print(&plan.to_string(), &plan)?;
    match plan.plan.preflight.blockers.len() {
        0 => Ok(()),
        1 => Err(Failure::failed("a run would be refused because of 1 blocker")),
        count => Err(Failure::failed(format_args!("a run would be refused because of {count} blockers"))),
    }
}

pub(crate) async fn rollback(session: &Session<impl Factory>, verb: &Rollback) -> Result<(), Failure> {
    let context = &session.context;
    let pool = verb.pool.target_vmss.as_ref();
    if verb.unpause {
        let pool = unpause(context, pool).await.map_err(|error| failure(&error))?;
        let text = format!("{pool}: unpaused; automatic runs start again, but never with a rejected patch\n");
        return session.print(&text, &json!({"pool": pool, "paused": false}));
    }
    let now = context.now();
    let request = RollbackRequest {
        to: match &verb.to {
            None => RollbackTarget::Previous,
            Some(Target::Version(number)) => RollbackTarget::Version(number.clone()),
            Some(Target::Original) => RollbackTarget::Original,
        },
        delete: verb.delete,
        reason: verb.reason.clone().unwrap_or_else(|| "rolled back by a person".to_owned()),
        after: verb.after,
        who: context.who.clone(),
        protected_settings: verb.settings.read(&context.cluster).await?,
        // Whole seconds, because a tag has little room.
        at: Timestamp::from_second(now.as_second()).unwrap_or(now),
    };
    let report = kiln_engine::rollback(context, pool, &request, verb.dry_run).await;
    let report = report.map_err(|error| failure(&error))?;
    session.print(&report.to_string(), &report)?;
    match &report.open_run {
        Some(run) if report.done && !run.released => {
            Err(Failure::new(4, format_args!("{}: rolled back, but run {} still has holds", report.pool, run.run))
                .hint("fix the problem above; then run `kiln prototype resume`, which only releases them"))
        }
        _ => Ok(()),
    }
}

pub(crate) async fn repair(session: &Session<impl Factory>, verb: &Repair) -> Result<(), Failure> {
    let reports = kiln_engine::repair(&session.context, &verb.pools.target_vmss, verb.yes).await;
    let reports = reports.map_err(|error| failure(&error))?;
    let mut text: String = reports.iter().map(ToString::to_string).collect();
    if !verb.yes && reports.iter().any(|report| !report.compaction.is_empty()) {
        text.push_str("nothing was changed; run the command with `--yes` to write the shortened journals\n");
    }
    session.print(&text, &json!({"pools": reports}))
}

pub(crate) async fn gc(session: &Session<impl Factory>, verb: &Gc) -> Result<(), Failure> {
    let report = kiln_engine::gc(&session.context, &verb.pools.target_vmss, verb.yes).await;
    let report = report.map_err(|error| failure(&error))?;
    session.print(&report.to_string(), &report)
}

pub(crate) async fn release(session: &Session<impl Factory>, verb: &Release) -> Result<(), Failure> {
    let report = kiln_engine::release(&session.context, &verb.node).await.map_err(|error| failure(&error))?;
    session.print(&report.to_string(), &report)
}

pub(crate) async fn history(session: &Session<impl Factory>, verb: &History) -> Result<(), Failure> {
    let all = kiln_engine::history(&session.context, &verb.pools.target_vmss).await;
    let all = all.map_err(|error| failure(&error))?;
    let mut text = String::new();
    for pool in &all {
        let _ = match pool.runs.len() {
            0 => writeln!(text, "{}: no runs", pool.pool),
            1 => writeln!(text, "{}: 1 run", pool.pool),
            count => writeln!(text, "{}: {count} runs, newest first", pool.pool),
        };
        for run in &pool.runs {
            let _ = writeln!(text, "  {run}");
            for step in run.steps.iter().filter(|_| verb.steps) {
                let _ = writeln!(text, "    {step}");
            }
        }
    }
    session.print(&text, &json!({"pools": all}))
}

pub(crate) async fn diff(session: &Session<impl Factory>, verb: &Diff) -> Result<(), Failure> {
    let diff = kiln_engine::compare(&session.context, verb.pool.target_vmss.as_ref(), &verb.from, &verb.to).await;
    let diff = diff.map_err(|error| failure(&error))?;
    session.print(&diff.to_string(), &diff)
}
