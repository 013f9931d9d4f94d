//! The commands that read, and the way back.

use std::fmt::Write;

use kiln_engine::{
    RollbackRequest, Request, Error, check_access as ask, compare, history as runs_of, unpause, plan as foresee,
    rollback as go_back, status as stock,
};
use kiln_prototype::rollback::To;
use kiln_types::Factory;
use serde_json::json;

use super::Session;
use super::verbs::{CheckAccess, Diff, History, Plan, Rollback, Status, Target};
use crate::failure::Failure;

/// The exit code of what went wrong.
pub(crate) fn failure(error: &Error) -> Failure {
    let code = match error {
        _ if error.is_busy() => 3,
        Error::NoSuchPool { .. } | Error::WhichPool { .. } => 2,
        Error::Stopped(_) => 130,
        _ => 1,
    };
    Failure::chain(code, error)
}

pub(crate) async fn status(session: &Session<impl Factory>, verb: &Status) -> Result<(), Failure> {
    let report =
        stock(&session.context, &verb.pools.target_vmss, verb.max_age).await.map_err(|error| failure(&error))?;
    session.print(&report.to_string(), &report)?;
    let old: Vec<&str> = report.too_old().map(|pool| pool.status.pool.as_str()).collect();
    if old.is_empty() {
        return Ok(());
    }
    let asked = verb.max_age.map(|most| most.to_string()).unwrap_or_default();
    Err(Failure::failed(format_args!("new nodes of {} get nothing that is at most {asked} old", old.join(", ")))
        .hint("`kiln prototype update` or `kiln prototype auto-update` makes a new version"))
}

pub(crate) async fn check_access(session: &Session<impl Factory>, verb: &CheckAccess) -> Result<(), Failure> {
    let report = ask(&session.context, &verb.pools.target_vmss).await.map_err(|error| failure(&error))?;
    session.print(&report.to_string(), &report)?;
    match report.missing().count() {
        0 => Ok(()),
        count => Err(Failure::failed(format_args!("permissions that every run needs and that are missing: {count}"))
            .hint("docs/reference/prototype.md has the smallest role; `kiln prototype check-access` asks again")),
    }
}

pub(crate) async fn plan(session: &Session<impl Factory>, verb: &Plan) -> Result<(), Failure> {
    let request = Request { node: verb.target_node.clone(), wish: verb.change.wish() };
    let plan = foresee(&session.context, &request, !verb.no_inspect).await.map_err(|error| failure(&error))?;
    session.print(&plan.to_string(), &plan)?;
    match plan.plan.verdict.refusals.len() {
        0 => Ok(()),
        1 => Err(Failure::failed("a run would be refused for 1 reason")),
        count => Err(Failure::failed(format_args!("a run would be refused for {count} reasons"))),
    }
}

pub(crate) async fn rollback(session: &Session<impl Factory>, verb: &Rollback) -> Result<(), Failure> {
    let context = &session.context;
    let pool = verb.pool.target_vmss.clone();
    if verb.unpause {
        let pool = unpause(context, pool.as_ref()).await.map_err(|error| failure(&error))?;
        let text =
            format!("{pool}: the hold is lifted; automatic runs go on, and never with the patch that was taken back\n");
        return session.print(&text, &json!({"pool": pool, "held": false}));
    }
    let to = match &verb.to {
        None => To::Previous,
        Some(Target::Version(number)) => To::Version(number.clone()),
        Some(Target::Original) => To::Original,
    };
    let request = RollbackRequest {
        pool,
        to,
        delete: verb.delete,
        after: verb.after,
        reason: verb.reason.clone(),
        dry_run: verb.dry_run,
    };
    let report = go_back(context, &request).await.map_err(|error| failure(&error))?;
    session.print(&report.to_string(), &report)
}

pub(crate) async fn history(session: &Session<impl Factory>, verb: &History) -> Result<(), Failure> {
    let all = runs_of(&session.context, &verb.pools.target_vmss).await.map_err(|error| failure(&error))?;
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
    let found = compare(&session.context, verb.pool.target_vmss.as_ref(), &verb.from, &verb.to).await;
    let diff = found.map_err(|error| failure(&error))?;
    session.print(&diff.to_string(), &diff)
}
