//! The runs of Prototypes.
//!
//! The status says that a run is under way before it starts. An operator that finds this without a run of its own continues: it resumes the open run of the
//! pool's journal, takes the result of a run that has closed meanwhile, or starts again.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kiln_fleet_api::{
    Prototype, PrototypeRun, PrototypeSpec, PrototypeStatus, RUN_REQUESTED_AT, RunOutcome, condition,
};
use kiln_kubernetes::Error;
use kiln_prototype::donor::DonorRules;
use kiln_prototype::history::MaxHistory;
use kiln_prototype::journal::Outcome;
use kiln_prototype::run::RunOptions;
use kiln_prototype::span::Span;
use kiln_rollout::Schedule;
use kiln_types::PoolName;
use kiln_types::error_chain::to_line;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::observe::scale_set;
use super::{ImageWork, Images, OFF};
use crate::operator::index::is_frozen;
use crate::operator::pools::set_condition;
use crate::operator::session::Session;
use crate::operator::stores::Snapshots;
use crate::run::{AutoRequest, PARALLEL, PoolOutcome, PoolReport, RunEnd};

/// A time of the schedule that passed longer ago, because no operator ran, is skipped.
const LATEST: SignedDuration = SignedDuration::from_hours(1);
/// Between two attempts to get the pool's lease.
const RETRY: Duration = Duration::from_secs(5);
/// As in `kiln prototype auto-update`.
const MAX_SKIPPED_NIGHTS: u32 = 14;

/// The runs of this leader, by name of the Prototype.
#[derive(Default)]
pub(super) struct Runs(Mutex<BTreeMap<String, Running>>);

struct Running {
    task: JoinHandle<()>,
    result: Arc<Mutex<Option<Result<Ended, String>>>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// How a run ended.
struct Ended {
    outcome: RunOutcome,
    version: Option<String>,
    donor: Option<String>,
    reasons: Vec<String>,
    message: String,
}

/// What a run is about to do, as parsed from the spec.
struct Plan {
    set: PoolName,
    schedule: Option<Schedule>,
    request: AutoRequest,
}

/// A condition: whether it is stalled, a reason and a sentence.
struct Answer {
    is_stalled: bool,
    reason: &'static str,
    message: String,
}

impl Session {
    /// Starts, follows and records the runs of a Prototype. Returns when to look again.
    pub(in crate::operator) async fn prototype(
        &self,
        name: &str,
        view: &Snapshots,
        now: Timestamp,
    ) -> Result<Option<Timestamp>, Error> {
        let Some(prototype) = view.prototypes.get(name) else { return Ok(None) };
        let mut status = prototype.status.clone().unwrap_or_default();
        let generation = prototype.metadata.generation;
        status.observed_generation = generation;
        let planned = match &self.images {
            Some(images) => plan(prototype, view).map(|plan| (images, plan)),
            None => Err(Answer { is_stalled: true, reason: "ImagesOff", message: OFF.to_owned() }),
        };
        let mut wake = None;
        let mut begins = None;
        let mut ended = None;
        let answer = match planned {
            Err(answer) => answer,
            Ok((images, plan)) => {
                let is_open = status.last_run.as_ref().is_some_and(|run| run.outcome == RunOutcome::Running);
                match images.runs.poll(name) {
                    Poll::Running => running(&status),
                    Poll::Ended(Ok(end)) => {
                        images.forget(&plan.set);
                        ended = Some((end.outcome, end.message.clone()));
                        record(&mut status, end, now);
                        idle(&status, &plan, now, &mut wake)
                    }
                    // Another process has the lease, or the cloud does not answer: the run stays open, and is tried again.
                    Poll::Ended(Err(error)) => {
                        wake = now.checked_add(RETRY).ok();
                        Answer { is_stalled: false, reason: "Waiting", message: error }
                    }
                    Poll::None if is_open => {
                        let since = status.last_run.as_ref().and_then(|run| run.started.parse().ok());
                        let last = prototype.status.as_ref().and_then(|status| waiting(&status.conditions));
                        begins = Some((images, plan, since));
                        last.map_or_else(
                            || running(&status),
                            |message| Answer { is_stalled: false, reason: "Waiting", message },
                        )
                    }
                    Poll::None => {
                        let requested = requested(prototype).filter(|request| *request != status.handled_request);
                        let due = due(&mut status, &plan, now);
                        match obstacle(prototype, view, now) {
                            Some(answer) if requested.is_some() || due || prototype.spec.paused => answer,
                            _ if requested.is_some() || due => {
                                if let Some(request) = requested {
                                    status.handled_request = request;
                                }
                                status.last_run = Some(PrototypeRun { started: text(now), ..PrototypeRun::default() });
                                begins = Some((images, plan, None));
                                running(&status)
                            }
                            _ => idle(&status, &plan, now, &mut wake),
                        }
                    }
                }
            }
        };
        let is_running = answer.reason == "Running" || answer.reason == "Waiting";
        let last = status.last_run.as_ref().map(|run| run.outcome);
        let is_failed = matches!(last, Some(RunOutcome::Failed | RunOutcome::Rejected | RunOutcome::Stuck));
        let rows = [
            (condition::READY, !answer.is_stalled && !is_running && !is_failed),
            (condition::RECONCILING, is_running),
            (condition::STALLED, answer.is_stalled || last == Some(RunOutcome::Stuck)),
        ];
        for (type_, is_true) in rows {
            let message = answer.message.clone();
            set_condition(&mut status.conditions, type_, is_true, answer.reason, message, generation, now);
        }
        let shared = &self.shared;
        let old = prototype.status.as_ref();
        let written = shared.update_status(&shared.stores.prototypes, &**prototype, old, &status).await?;
        if let Some((outcome, message)) = ended {
            let is_bad = matches!(outcome, RunOutcome::Failed | RunOutcome::Rejected | RunOutcome::Stuck);
            shared.notice(&**prototype, is_bad, outcome.as_str(), &message).await;
        } else if written.is_some() && answer.is_stalled {
            shared.notice(&**prototype, true, answer.reason, &answer.message).await;
        }
        if let Some((images, plan, since)) = begins {
            images.begin(name, plan, since);
            if since.is_none() {
                shared.notice(&**prototype, false, "RunStarted", "a prototype run starts").await;
            }
        }
        Ok(wake)
    }
}

/// A sentence about a run that waits for another process.
fn waiting(conditions: &[kiln_fleet_api::Condition]) -> Option<String> {
    let found = conditions.iter().find(|one| one.type_ == condition::RECONCILING && one.reason == "Waiting");
    found.map(|condition| condition.message.clone())
}

fn running(status: &PrototypeStatus) -> Answer {
    let started = status.last_run.as_ref().map(|run| run.started.clone()).unwrap_or_default();
    Answer { is_stalled: false, reason: "Running", message: format!("a run is under way since {started}") }
}

fn idle(status: &PrototypeStatus, plan: &Plan, now: Timestamp, wake: &mut Option<Timestamp>) -> Answer {
    if let Some(next) = status.next_run.as_deref().and_then(|text| text.parse::<Timestamp>().ok()) {
        *wake = (next > now && plan.schedule.is_some()).then_some(next);
    }
    let (reason, message) = match &status.last_run {
        Some(run) => (run.outcome.as_str(), run.message.clone()),
        None => ("Idle", "no run has started yet".to_owned()),
    };
    Answer { is_stalled: false, reason, message }
}

/// Why a run that is due does not start.
fn obstacle(prototype: &Prototype, view: &Snapshots, now: Timestamp) -> Option<Answer> {
    let pool = prototype.spec.pool.as_str();
    let message = if prototype.spec.paused {
        "the Prototype is paused; set `spec.paused` to false".to_owned()
    } else if view.pools.get(pool).is_some_and(|pool| pool.spec.paused) {
        format!("Pool `{pool}` is paused; set its `spec.paused` to false")
    } else if is_frozen(&view.freezes, pool, now) {
        format!("a Freeze of Pool `{pool}` is in force; delete it to start the run")
    } else {
        return None;
    };
    Some(Answer { is_stalled: false, reason: "Paused", message })
}

fn requested(prototype: &Prototype) -> Option<String> {
    prototype.metadata.annotations.as_ref()?.get(RUN_REQUESTED_AT).cloned()
}

/// Whether the time of the schedule has come, and when the next one is.
fn due(status: &mut PrototypeStatus, plan: &Plan, now: Timestamp) -> bool {
    let Some(schedule) = &plan.schedule else {
        status.next_run = None;
        return false;
    };
    let planned = status.next_run.as_deref().and_then(|text| text.parse::<Timestamp>().ok());
    let following = schedule.next_after(now);
    // A schedule that was changed has an earlier time.
    let next = match planned {
        Some(planned) if planned <= now => following,
        Some(planned) if following.is_none_or(|following| planned <= following) => Some(planned),
        _ => following,
    };
    status.next_run = next.map(text);
    planned.is_some_and(|planned| planned <= now && now.duration_since(planned) <= LATEST)
}

/// Parses the spec of a Prototype and finds its pool.
fn plan(prototype: &Prototype, view: &Snapshots) -> Result<Plan, Answer> {
    let stalled = |reason: &'static str, message: String| Answer { is_stalled: true, reason, message };
    let PrototypeSpec { pool, donor, schedule, canary, history, no_original, .. } = &prototype.spec;
    let object = view.pools.get(pool);
    let object = object.ok_or_else(|| stalled("NoPool", format!("Pool `{pool}` does not exist; create it")))?;
    let set = scale_set(object).ok_or_else(|| {
        stalled("NoFactory", format!("Pool `{pool}` has no `spec.factory`; set `azureScaleSet` to its scale set"))
    })?;
    let set = set.map_err(|error| stalled("NoFactory", format!("Pool `{pool}`: {error}")))?;
    let invalid = |field: &str, text: &str| {
        stalled(
            "Invalid",
            format!("`{field}`: invalid duration `{text}`; expected a duration such as `90s`, `10m` or `1h`"),
        )
    };
    let span = |field: &str, text: Option<&String>, default: u64| match text {
        None => Ok(Span::from_secs(default)),
        Some(text) => text.parse::<Span>().map_err(|_| invalid(field, text)),
    };
    let schedule = schedule.as_ref().map(Schedule::parse).transpose();
    let schedule = schedule.map_err(|error| stalled("Invalid", format!("{error}; correct the field")))?;
    let rules = DonorRules {
        ignore_annotations: donor.ignore_annotations.clone(),
        ignore_nodes: donor.ignore_nodes.clone(),
        minimum_ready: span("donor.minimumReadyTime", donor.minimum_ready_time.as_ref(), 60)?,
        minimum_candidates: donor.minimum_candidates.unwrap_or(1),
        maximum_image_age: donor.maximum_image_age.unwrap_or_default(),
        ..DonorRules::new(&donor.pending_reboot_annotation, &donor.last_patch_annotation)
    };
    let options = RunOptions {
        max_history: MaxHistory::new(*history).map_err(|error| stalled("Invalid", format!("`history`: {error}")))?,
        no_original: *no_original,
        canary: !canary.skip,
        canary_secret: canary.secret.clone(),
        canary_size: canary.size.clone(),
        canary_zone: canary.zone.clone(),
        keep_canary_on_failure: canary.keep_on_failure,
        soak_seconds: Duration::from(span("canary.soak", canary.soak.as_ref(), 0)?).as_secs(),
        ..RunOptions::default()
    };
    let request = AutoRequest {
        pools: vec![set.clone()],
        rules,
        options,
        dry_run: false,
        max_skipped_nights: MAX_SKIPPED_NIGHTS,
        parallel: PARALLEL,
    };
    Ok(Plan { set, schedule, request })
}

enum Poll {
    None,
    Running,
    Ended(Result<Ended, String>),
}

impl Runs {
    /// The run of a Prototype. A result is returned once.
    fn poll(&self, name: &str) -> Poll {
        let mut runs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(running) = runs.get(name) else { return Poll::None };
        let result = running.result.lock().unwrap_or_else(PoisonError::into_inner).take();
        match result {
            Some(result) => {
                runs.remove(name);
                Poll::Ended(result)
            }
            None if running.task.is_finished() => {
                runs.remove(name);
                Poll::None
            }
            None => Poll::Running,
        }
    }
}

impl Images {
    /// Starts a run, or continues one that was started at this time.
    fn begin(&self, name: &str, plan: Plan, since: Option<Timestamp>) {
        let result = Arc::new(Mutex::new(None));
        let (store, work, shared) = (result.clone(), self.options.work.clone(), self.shared.clone());
        let task = tokio::spawn(async move {
            let done = execute(work.as_ref(), plan, since).await;
            if done.is_err() {
                tokio::time::sleep_until(Instant::now() + RETRY).await;
            }
            *store.lock().unwrap_or_else(PoisonError::into_inner) = Some(done);
            shared.stores.changed.notify_one();
        });
        let mut runs = self.runs.0.lock().unwrap_or_else(PoisonError::into_inner);
        runs.insert(name.to_owned(), Running { task, result });
    }
}

/// Runs to the end. An error means that the run has to be tried again.
async fn execute(work: &dyn ImageWork, plan: Plan, since: Option<Timestamp>) -> Result<Ended, String> {
    if let Some(since) = since {
        let read = work.read(&plan.set).await.map_err(|error| to_line(&error))?;
        // The operator died after the end of the run. The times in the status are whole seconds.
        let last = read.runs.last().filter(|run| run.header.started >= since);
        if let Some((run, (_, outcome))) = last.and_then(|run| Some((run, run.closed.as_ref()?))) {
            return Ok(closed(outcome, Some(run.header.donor.node.to_string())));
        }
    }
    let mut reports = work.run(plan.request).await.map_err(|error| to_line(&error))?;
    let report = reports.pop().ok_or_else(|| "the scale set has no report".to_owned())?;
    match report.outcome {
        PoolOutcome::Failed(error) => Err(to_line(&error)),
        _ => Ok(ended(report)),
    }
}

fn closed(outcome: &Outcome, donor: Option<String>) -> Ended {
    let message = outcome.to_string();
    let (outcome, version) = match outcome {
        Outcome::Completed { version } => (RunOutcome::Completed, Some(version.to_string())),
        Outcome::Failed { .. } => (RunOutcome::Failed, None),
        Outcome::Rejected { version, .. } => (RunOutcome::Rejected, Some(version.to_string())),
    };
    Ended { outcome, version, donor, reasons: Vec::new(), message }
}

fn ended(report: PoolReport) -> Ended {
    let message = report.outcome.to_string();
    let refused = report.refused.iter().map(|(node, reasons)| format!("`{node}`: {}", reasons.join("; ")));
    let mut reasons: Vec<String> = refused.collect();
    match report.outcome {
        PoolOutcome::Ran(run) => {
            let donor = Some(run.node.to_string());
            match &run.end {
                RunEnd::Closed(outcome) => Ended { reasons, ..closed(outcome, donor) },
                RunEnd::Refused(_) => Ended { outcome: RunOutcome::Skipped, version: None, donor, reasons, message },
                RunEnd::Stuck(_) | RunEnd::Stopped { .. } => {
                    Ended { outcome: RunOutcome::Stuck, version: None, donor, reasons, message }
                }
            }
        }
        PoolOutcome::Skipped(skipped) => {
            reasons.extend(skipped);
            Ended { outcome: RunOutcome::Skipped, version: None, donor: None, reasons, message }
        }
        PoolOutcome::WouldClone(_) | PoolOutcome::Failed(_) => {
            Ended { outcome: RunOutcome::Failed, version: None, donor: None, reasons, message }
        }
    }
}

fn record(status: &mut PrototypeStatus, end: Ended, now: Timestamp) {
    let run = status.last_run.get_or_insert_default();
    run.ended = Some(text(now));
    (run.outcome, run.image_version, run.message) = (end.outcome, end.version, end.message);
    (status.donor, status.reasons) = (end.donor, end.reasons);
}

fn text(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
