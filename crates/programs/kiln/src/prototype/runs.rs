//! The commands that run something.

use std::fmt::Write;

use comfy_table::Table;
use comfy_table::presets::NOTHING;
use kiln_engine::{AutoRequest, PoolOutcome, RunEnd, Error, PARALLEL, PoolReport, RefreshRequest, Report, Request, Wish};
use kiln_prototype::donor::{Choice, DonorRules, Row};
use kiln_prototype::refresh::Pace;
use kiln_prototype::run::RunOptions;
use kiln_types::{Factory, PoolName};
use serde_json::{Value, json};

use super::Session;
use super::change::Change;
use super::sides;
use super::verbs::{AutoUpdate, Refresh, Resume, Update};
use crate::failure::{Failure, chain};

impl Change {
    /// What is asked of a run.
    pub(crate) fn wish(&self) -> Wish {
        Wish {
            policy: RunOptions {
                max_history: self.max_history.get(),
                grace_seconds: self.grace_period,
                force: self.force,
                canary: !self.no_canary,
                pin: self.pin,
                deallocate: self.deallocate,
                replace_today: self.replace_today,
                new_nodes: self.new_updated_nodes,
                disk_encryption_set: self.disk_encryption_set.clone(),
                ..RunOptions::default()
            },
            replicas: self.replicas,
            tags: self.tags(),
            allow_empty_pool: self.allow_empty_pool,
            no_original: self.no_original,
        }
    }
}

pub(crate) async fn update(session: &Session<impl Factory>, verb: &Update) -> Result<(), Failure> {
    let request = Request { node: verb.target_node.clone(), wish: verb.change.wish() };
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
        wish: verb.change.wish(),
        dry_run: verb.dry_run,
        parallel: PARALLEL,
    };
    let reports = kiln_engine::auto_update(&session.context, &request).await;
    let reports = reports.map_err(|error| sides::failure(&error))?;
    let mut text = String::new();
    for report in &reports {
        if let Some(choice) = &report.choice {
            let _ = writeln!(text, "{}", table(choice));
        }
        let _ = writeln!(text, "{}: {}", report.pool, report.became);
    }
    let status = kiln_engine::status(&session.context, &verb.pools.target_vmss, None).await;
    let status = status.map_err(|error| sides::failure(&error))?;
    let _ = write!(text, "\n{status}");
    let all: Vec<Value> = reports.iter().map(pool_json).collect();
    session.print(&text, &json!({"pools": all, "status": status}))?;
    let worst = reports.iter().filter_map(pool_failure).max_by_key(|failure| failure.code);
    worst.map_or(Ok(()), Err)
}

/// Why or why not, for every node.
fn table(choice: &Choice) -> String {
    let mut table = Table::new();
    table.load_style(NOTHING).set_header(Row::HEADINGS);
    for row in &choice.rows {
        table.add_row(row.cells());
    }
    let lines = table.lines().map(|line| line.trim_end().to_owned());
    lines.collect::<Vec<_>>().join("\n")
}

fn pool_json(report: &PoolReport) -> Value {
    let became = match &report.became {
        PoolOutcome::Skipped(reasons) => json!({"became": "skipped", "reasons": reasons}),
        PoolOutcome::WouldClone(node) => json!({"became": "wouldClone", "node": node}),
        PoolOutcome::Ran(run) => json!({"became": "ran", "run": to_json(run)}),
        PoolOutcome::Failed(error) => json!({"became": "failed", "reason": chain(error)}),
    };
    let mut object = json!({"pool": report.pool, "choice": report.choice});
    if let (Value::Object(into), Value::Object(from)) = (&mut object, became) {
        into.extend(from);
    }
    object
}

fn pool_failure(report: &PoolReport) -> Option<Failure> {
    match &report.became {
        became if became.is_well() => None,
        PoolOutcome::Ran(run) => Some(explain(code(&run.ending), run)),
        PoolOutcome::Failed(error) => Some(failure(error)),
        PoolOutcome::Skipped(_) | PoolOutcome::WouldClone(_) => None,
    }
}

pub(crate) async fn resume(session: &Session<impl Factory>, verb: &Resume) -> Result<(), Failure> {
    let context = &session.context;
    let pools = context.pools(&verb.pools.target_vmss).await.map_err(|error| sides::failure(&error))?;
    let mut open: Vec<PoolName> = Vec::new();
    for pool in pools {
        let runs = context.runs(&pool.name).await.map_err(|error| sides::failure(&error))?;
        if runs.iter().any(|run| run.closed.is_none()) {
            open.push(pool.name);
        }
    }
    if open.is_empty() {
        return session.print("no run is open\n", &json!({"runs": []}));
    }
    let mut reports = Vec::new();
    for pool in &open {
        reports.push(kiln_engine::resume(context, pool).await.map_err(|error| failure(&error))?);
    }
    finish(session, &reports)
}

pub(crate) async fn refresh(session: &Session<impl Factory>, verb: &Refresh) -> Result<(), Failure> {
    let pace = Pace { surge: verb.surge, max_unavailable: verb.max_unavailable, all_at_once: verb.all_at_once };
    let pace = pace.check().map_err(Failure::input)?;
    let request = RefreshRequest {
        pool: verb.pool.target_vmss.clone(),
        pace,
        grace_seconds: verb.grace_period,
        force: verb.force,
        dry_run: verb.dry_run,
    };
    let report = kiln_engine::refresh(&session.context, &request).await.map_err(|error| sides::failure(&error))?;
    session.print(&report.to_string(), &report)
}

/// Says how runs ended; the worst of them is the exit code.
pub(crate) fn finish(session: &Session<impl Factory>, reports: &[Report]) -> Result<(), Failure> {
    let mut text = String::new();
    for report in reports {
        let _ = writeln!(text, "{}: {}", report.pool, report.ending);
        for note in &report.notes {
            let _ = writeln!(text, "{}: note: {note}", report.pool);
        }
    }
    let all: Vec<Value> = reports.iter().map(to_json).collect();
    session.print(&text, &json!({"runs": all}))?;
    let worst = reports.iter().max_by_key(|report| code(&report.ending));
    match worst.map(|report| (code(&report.ending), report)) {
        None | Some((0, _)) => Ok(()),
        Some((code, report)) => Err(explain(code, report)),
    }
}

fn code(ending: &RunEnd) -> u8 {
    match ending {
        RunEnd::Completed { .. } => 0,
        RunEnd::Failed { .. } | RunEnd::Rejected { .. } | RunEnd::Refused(_) => 1,
        RunEnd::Stuck(_) => 4,
        RunEnd::Stopped { .. } => 130,
    }
}

/// The one line on standard error, and what to do next.
fn explain(code: u8, report: &Report) -> Failure {
    let pool = &report.pool;
    let said = |text: &str| Failure::new(code, format_args!("{pool}: {text}"));
    match &report.ending {
        RunEnd::Completed { version } => said(&format!("new nodes are made from {version}")),
        RunEnd::Failed { step, .. } => said(&format!("the run failed at {step}; everything is given back"))
            .hint("mend what the message names and run again; `kiln prototype history --steps` shows the run"),
        RunEnd::Rejected { version, .. } => said(&format!("the canary of {version} did not join; nobody gets it"))
            .hint("look at the donor: what it runs does not survive being copied"),
        RunEnd::Refused(_) => said("refused; nothing was touched").hint("`kiln prototype plan` shows every reason"),
        RunEnd::Stuck(stuck) => said(&format!("stuck at {}", stuck.step)).hint(&stuck.advice),
        RunEnd::Stopped { at, .. } => said(&format!("stopped before {at}")).hint("`kiln prototype resume` goes on"),
    }
}

fn to_json(report: &Report) -> Value {
    let ending = match &report.ending {
        RunEnd::Completed { version } => json!({"ending": "completed", "version": version}),
        RunEnd::Failed { step, failure } => json!({"ending": "failed", "step": step, "reason": failure.message}),
        RunEnd::Rejected { version, reason } => {
            json!({"ending": "rejected", "version": version, "reason": reason})
        }
        RunEnd::Refused(reasons) => json!({"ending": "refused", "reasons": reasons}),
        RunEnd::Stuck(stuck) => json!({
            "ending": "stuck", "step": stuck.step, "reason": stuck.reason, "held": stuck.held, "advice": stuck.advice,
        }),
        RunEnd::Stopped { at, held } => json!({"ending": "stopped", "step": at, "held": held}),
    };
    let mut object = json!({"pool": report.pool, "node": report.node, "run": report.run, "notes": report.notes});
    if let (Value::Object(into), Value::Object(from)) = (&mut object, ending) {
        into.extend(from);
    }
    object
}

/// The exit code of what went wrong before a run, or of one that cannot go on here.
pub(crate) fn failure(error: &Error) -> Failure {
    let failure = Failure::chain(if error.is_busy() { 3 } else { 1 }, error);
    match error {
        Error::Interrupted { .. } => Failure { code: 3, ..failure },
        Error::NotOfAPool { .. } => {
            Failure { code: 2, ..failure }.hint("`--target-node` takes a node's name, as `kubectl get nodes` shows it")
        }
        _ => failure,
    }
}
