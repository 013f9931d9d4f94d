//! The commands that start or resume runs, and `refresh`.

use std::fmt::Write;

use comfy_table::Table;
use comfy_table::presets::NOTHING;
use kiln_engine::{
    AutoRequest, Error, PARALLEL, PoolOutcome, PoolReport, RefreshRequest, RunEnd, RunReport, RunRequest,
};
use kiln_kubernetes::Error as ClusterError;
use kiln_prototype::donor::{Choice, DonorRules, NodeRow, SkipProblem};
use kiln_prototype::journal::Outcome;
use kiln_prototype::refresh::Budget;
use kiln_prototype::step::Step;
use kiln_types::{Factory, PoolName};
use serde_json::{Value, json};

use super::Session;
use super::verbs::{AutoUpdate, Refresh, Resume, Update};
use crate::failure::{Failure, chain};

pub(crate) async fn update(session: &Session<impl Factory>, verb: &Update) -> Result<(), Failure> {
    let request = RunRequest { node: verb.target_node.clone(), options: verb.run.options(&session.context).await? };
    let report = kiln_engine::update(&session.context, &request).await.map_err(|error| failure(&error))?;
    finish(session, &[report])
}

pub(crate) async fn auto_update(session: &Session<impl Factory>, verb: &AutoUpdate) -> Result<(), Failure> {
    let request = AutoRequest {
        pools: verb.pools.target_vmss.clone(),
        rules: DonorRules {
            pending_reboot_annotation: verb.pending_reboot_annotation.clone(),
            last_patch_annotation: verb.last_patch_annotation.clone(),
            ignore_annotations: verb.node_ignore_annotation.clone(),
            ignore_nodes: verb.ignore_nodes.iter().map(ToString::to_string).collect(),
            minimum_ready: verb.minimum_ready_time,
            minimum_candidates: verb.minimum_candidates,
            maximum_image_age: verb.maximum_image_age,
        },
        options: verb.run.options(&session.context).await?,
        dry_run: verb.dry_run,
        max_skipped_nights: verb.max_skipped_nights,
        parallel: PARALLEL,
    };
    let reports = kiln_engine::auto_update(&session.context, &request).await;
    let reports = reports.map_err(|error| failure(&error))?;
    let mut text = String::new();
    for report in &reports {
        if let Some(choice) = &report.choice {
            let _ = writeln!(text, "{}", table(choice));
        }
        for (node, reasons) in &report.refused {
            let _ = writeln!(text, "{}: donor {node} was refused: {}", report.pool, reasons.join("; "));
        }
        let _ = writeln!(text, "{}: {}", report.pool, report.outcome);
        if let Some(skipped) = &report.skipped {
            let _ =
                writeln!(text, "{}: skipped {} nights in a row, since {}", report.pool, skipped.nights, skipped.since);
        }
    }
    let status = kiln_engine::status(&session.context, &verb.pools.target_vmss, None).await;
    let status = status.map_err(|error| failure(&error))?;
    let _ = write!(text, "\n{status}");
    let all: Vec<Value> = reports.iter().map(pool_json).collect();
    let metrics: Vec<String> = reports.iter().flat_map(metrics).collect();
    session.print(&text, &json!({"pools": all, "status": status, "metrics": metrics}))?;
    let failures = reports.iter().filter_map(|report| pool_failure(report, verb.allow_skipped));
    let worst = failures.max_by_key(|failure| failure.code);
    worst.map_or(Ok(()), Err)
}

/// The choice of a donor, with the reasons for every node.
fn table(choice: &Choice) -> String {
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(NodeRow::HEADINGS);
    for row in &choice.rows {
        table.add_row(row.cells());
    }
    let lines = table.lines().map(|line| line.trim_end().to_owned());
    lines.collect::<Vec<_>>().join("\n")
}

fn pool_json(report: &PoolReport) -> Value {
    let outcome = match &report.outcome {
        PoolOutcome::Skipped(reasons) => json!({"outcome": "skipped", "reasons": reasons}),
        PoolOutcome::WouldClone(node) => json!({"outcome": "wouldClone", "node": node}),
        PoolOutcome::Ran(run) => json!({"outcome": "ran", "run": to_json(run)}),
        PoolOutcome::Failed(error) => json!({"outcome": "failed", "reason": chain(error)}),
    };
    let refused: Vec<Value> =
        report.refused.iter().map(|(node, reasons)| json!({"node": node, "reasons": reasons})).collect();
    let mut object = json!({
        "pool": report.pool, "choice": report.choice, "refused": refused,
        "skipped": report.skipped, "problem": report.problem,
    });
    if let (Value::Object(into), Value::Object(from)) = (&mut object, outcome) {
        into.extend(from);
    }
    object
}

/// One line per value in the text format of Prometheus, for a job that pushes them.
fn metrics(report: &PoolReport) -> Vec<String> {
    let PoolReport { pool, skipped, problem, .. } = report;
    let nights = skipped.as_ref().map_or(0, |record| record.nights);
    let reason = problem.as_ref().map_or("", SkipProblem::label);
    vec![
        format!("kiln_pool_skipped_nights{{pool=\"{pool}\"}} {nights}"),
        format!("kiln_pool_blocked{{pool=\"{pool}\",reason=\"{reason}\"}} {}", u8::from(problem.is_some())),
    ]
}

fn pool_failure(report: &PoolReport, allow_skipped: bool) -> Option<Failure> {
    if let (Some(problem), Some(record), false) = (&report.problem, &report.skipped, allow_skipped) {
        let error =
            format!("{}: skipped {} nights in a row: {problem}; nothing was changed", report.pool, record.nights);
        let hint = match problem {
            SkipProblem::Paused => "unpause it with `kiln prototype rollback --unpause`, or use `--allow-skipped`",
            SkipProblem::RejectedPatch => {
                "fix the nodes, or accept their packages with `--allow-rejected-patch`; `--allow-skipped` hides this error"
            }
            SkipProblem::TooManyNights => "the table has the reasons for each node; `--allow-skipped` hides this error",
        };
        return Some(Failure::new(1, error).hint(hint));
    }
    match &report.outcome {
        outcome if outcome.is_success() => None,
        PoolOutcome::Ran(run) => Some(explain(code(&run.end), run)),
        PoolOutcome::Failed(error) => Some(failure(error)),
        PoolOutcome::Skipped(_) | PoolOutcome::WouldClone(_) => None,
    }
}

pub(crate) async fn resume(session: &Session<impl Factory>, verb: &Resume) -> Result<(), Failure> {
    let context = &session.context;
    let pools = context.pools(&verb.pools.target_vmss).await.map_err(|error| failure(&error))?;
    let mut open: Vec<PoolName> = Vec::new();
    for pool in pools {
        let runs = context.runs(&pool.name).await.map_err(|error| failure(&error))?;
        if runs.iter().any(|run| run.closed.is_none()) {
            open.push(pool.name);
        }
    }
    if open.is_empty() {
        return session.print("no open runs\n", &json!({"runs": []}));
    }
    let mut reports = Vec::new();
    for pool in &open {
        reports.push(kiln_engine::resume(context, pool).await.map_err(|error| failure(&error))?);
    }
    finish(session, &reports)
}

pub(crate) async fn refresh(session: &Session<impl Factory>, verb: &Refresh) -> Result<(), Failure> {
    let budget = Budget { surge: verb.surge, max_unavailable: verb.max_unavailable, all_at_once: verb.all_at_once };
    let request = RefreshRequest {
        pool: verb.pool.target_vmss.clone(),
        budget: budget.check().map_err(Failure::input)?,
        grace_seconds: verb.grace_period,
        force: verb.force,
        dry_run: verb.dry_run,
    };
    let report = kiln_engine::refresh(&session.context, &request).await.map_err(|error| failure(&error))?;
    session.print(&report.to_string(), &report)
}

/// Prints how runs ended. The highest of their exit codes is returned.
fn finish(session: &Session<impl Factory>, reports: &[RunReport]) -> Result<(), Failure> {
    let mut text = String::new();
    for report in reports {
        let _ = writeln!(text, "{}: {}", report.pool, report.end);
        for note in &report.notes {
            let _ = writeln!(text, "{}: note: {note}", report.pool);
        }
    }
    let all: Vec<Value> = reports.iter().map(to_json).collect();
    session.print(&text, &json!({"runs": all}))?;
    let worst = reports.iter().max_by_key(|report| code(&report.end));
    match worst.map(|report| (code(&report.end), report)) {
        None | Some((0, _)) => Ok(()),
        Some((code, report)) => Err(explain(code, report)),
    }
}

fn code(end: &RunEnd) -> u8 {
    match end {
        RunEnd::Closed(Outcome::Completed { .. }) => 0,
        RunEnd::Closed(Outcome::Failed { .. } | Outcome::Rejected { .. }) | RunEnd::Refused(_) => 1,
        RunEnd::Stuck(_) => 4,
        RunEnd::Stopped { .. } => 130,
    }
}

/// The error line of a run that did not complete, with a hint.
fn explain(code: u8, report: &RunReport) -> Failure {
    let pool = &report.pool;
    let error = |text: &str| Failure::new(code, format_args!("{pool}: {text}"));
    match &report.end {
        RunEnd::Closed(Outcome::Completed { version }) => error(&format!("new nodes are created from {version}")),
        RunEnd::Closed(Outcome::Failed { step: step @ Step::AwaitCanary, .. }) => {
            error(&format!("the run failed at {step}; all holds are released and the version is not rejected"))
                .hint("fix the problem above, then run the command again: it tests the version of today once more")
        }
        RunEnd::Closed(Outcome::Failed { step, failure }) => {
            let other =
                "fix the problem above, then run the command again; `kiln prototype history --steps` shows the run";
            error(&format!("the run failed at {step}; all holds are released"))
                .hint(failure.class.hint().unwrap_or(other))
        }
        RunEnd::Closed(Outcome::Rejected { version, .. }) => {
            error(&format!("version {version} was rejected by its canary; new nodes do not get it"))
                .hint("check the donor: something on it does not survive being cloned")
        }
        RunEnd::Refused(_) => {
            error("the run was refused; nothing was changed").hint("`kiln prototype plan` lists all blockers")
        }
        RunEnd::Stuck(stuck) => error(&format!("the run is stuck at {}", stuck.step)).hint(&stuck.advice),
        RunEnd::Stopped { step, .. } => {
            error(&format!("stopped before {step}")).hint("continue with `kiln prototype resume`")
        }
    }
}

fn to_json(report: &RunReport) -> Value {
    let end = match &report.end {
        RunEnd::Closed(Outcome::Completed { version }) => json!({"outcome": "completed", "version": version}),
        RunEnd::Closed(Outcome::Failed { step, failure }) => {
            json!({"outcome": "failed", "step": step, "reason": failure.message})
        }
        RunEnd::Closed(Outcome::Rejected { version, reason }) => {
            json!({"outcome": "rejected", "version": version, "reason": reason})
        }
        RunEnd::Refused(blockers) => json!({"outcome": "refused", "blockers": blockers}),
        RunEnd::Stuck(stuck) => json!({
            "outcome": "stuck", "step": stuck.step, "reason": stuck.reason, "holds": stuck.holds, "advice": stuck.advice,
        }),
        RunEnd::Stopped { step, holds } => json!({"outcome": "stopped", "step": step, "holds": holds}),
    };
    let mut object = json!({"pool": report.pool, "node": report.node, "run": report.run, "notes": report.notes});
    if let (Value::Object(into), Value::Object(from)) = (&mut object, end) {
        into.extend(from);
    }
    object
}

/// Exit code and hint of an operation that failed.
pub(crate) fn failure(error: &Error) -> Failure {
    let code = match error {
        _ if error.is_busy() => 3,
        Error::NoSuchPool { .. } | Error::AmbiguousPool { .. } | Error::NotInPool { .. } => 2,
        Error::Stopped(_) => 130,
        _ => 1,
    };
    let failure = Failure::chain(code, error);
    match error {
        Error::NotInPool { .. } => {
            failure.hint("`--target-node` expects the name of a node, as `kubectl get nodes` shows it")
        }
        Error::Cluster(ClusterError::JournalTooLarge { .. })
        | Error::Interrupted { source: ClusterError::JournalTooLarge { .. }, .. } => {
            failure.hint("`kiln prototype repair` shows what can be dropped from the journal")
        }
        Error::Interrupted { .. } => failure.hint("continue with `kiln prototype resume`"),
        Error::NoProtectedSettings { .. } => failure.hint(
            "give them with `--protected-settings` or `--protected-settings-secret`; `{}` if the extension has none",
        ),
        Error::Unmatched { .. } => failure.hint(
            "check `kubectl get nodes -o custom-columns=NAME:.metadata.name,ID:.spec.providerID`; repair or delete these \
             instances, or use `--all-at-once`, which deletes without a drain",
        ),
        Error::Cloud { class, .. } => match class.hint() {
            Some(hint) => failure.hint(hint),
            None => failure,
        },
        Error::HeldByOpenRun { .. } => failure.hint("continue the run with `kiln prototype resume`; it releases the node"),
        Error::OtherGallery { recorded, .. } => match recorded.as_deref().and_then(|scope| scope.split_once('/')) {
            Some((subscription, group)) => failure.hint(format!(
                "use `--gallery-resource-group {group} --gallery-subscription {subscription}`, as the run did"
            )),
            None => failure.hint("leave out `--gallery-resource-group`, as the run did"),
        },
        Error::Push(refusal) => match refusal.hint() {
            Some(hint) => failure.hint(hint),
            None => failure,
        },
        Error::NoOpenRun(_) => failure.hint("`kiln prototype history` shows the pool's runs"),
        Error::Cluster(ClusterError::JournalUnreadable { journal, .. }) => {
            let (namespace, name) = journal.split_once('/').unwrap_or(("default", journal));
            failure.hint(format_args!(
                "finish an open run with the kiln that wrote the journal (`kiln prototype resume`; if the journal is full, run \
                 `kiln prototype repair` first), then delete it: `kubectl delete configmap --namespace {namespace} {name}`"
            ))
        }
        _ => failure,
    }
}
