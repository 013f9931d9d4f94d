//! Waiting: for operations of the cloud, for nodes, or for a pause to end.

use std::time::Duration;

use kiln_kubernetes::ReadyWhen;
use kiln_prototype::decide::{Wait, boot_before, event_after_operation};
use kiln_prototype::journal::StepFailure;
use kiln_prototype::step::Step;
use kiln_types::{Factory, FactoryError, OperationHandle, OperationState};
use tokio::time::{Instant, sleep, timeout};

use super::{CanaryNode, Runner};
use crate::error::Error;
use crate::event::RunEventKind;

/// Poll interval if the cloud does not suggest one: short at first, since most operations are short, then doubled up to 30 seconds.
const FIRST_POLL: Duration = Duration::from_secs(2);
const MAX_POLL: Duration = Duration::from_secs(30);

/// Also if the cloud suggests a shorter one, which would poll without pause.
const MIN_POLL: Duration = Duration::from_millis(200);

/// After this time the resource itself is read. Three times the longest operation that was observed.
const OPERATION_TIMEOUT: Duration = Duration::from_hours(6);

impl<F: Factory> Runner<'_, F> {
    pub(super) async fn wait(&mut self, wait: Wait) -> Result<(), Error> {
        match wait {
            Wait::Operation { step, handle } => self.follow(step, &handle).await,
            Wait::For { step, pause, reason } => {
                self.emit(RunEventKind::Waiting { step, reason, percent: None, pause }).await;
                match step {
                    Step::AwaitReady => self.until_ready(pause).await,
                    // It is Ready already: the run waits for its smoke test or its soak.
                    Step::AwaitCanary if self.canary.as_ref().is_some_and(|canary| canary.ready.is_some()) => {
                        self.pause(pause).await;
                    }
                    Step::AwaitCanary => self.until_canary(pause).await,
                    _ => self.pause(pause).await,
                }
                self.observed.forget_after_wait(step);
                Ok(())
            }
        }
    }

    /// Follows an operation to its end. Afterwards the resource is read, unless the step trusts the response.
    async fn follow(&mut self, step: Step, handle: &OperationHandle) -> Result<(), Error> {
        let (began, was_stopping) = (Instant::now(), self.context.stop.is_requested());
        let mut interval = FIRST_POLL;
        loop {
            let progress = match self.context.factory.observe(handle).await {
                Ok(OperationState::Succeeded) => {
                    return match event_after_operation(&mut self.run, step) {
                        Some(event) => self.record(event).await,
                        None => Ok(()),
                    };
                }
                Ok(OperationState::Failed(failure)) => {
                    let failure = StepFailure::new(failure.class, failure.to_string());
                    return self.fail(step, failure).await;
                }
                Ok(OperationState::Running(_)) if began.elapsed() >= OPERATION_TIMEOUT => break,
                Ok(OperationState::Running(progress)) => progress,
                // The cloud has forgotten the operation: read the resource.
                Err(error) if error.not_found() => break,
                Err(error) => {
                    self.note(format!("{step}: cannot poll its operation: {error}")).await;
                    self.pause(MAX_POLL).await;
                    break;
                }
            };
            let pause = progress.retry_after.unwrap_or(interval).max(MIN_POLL);
            interval = (interval * 2).min(MAX_POLL);
            let reason = "the operation is running".to_owned();
            self.emit(RunEventKind::Waiting { step, reason, percent: progress.percent, pause }).await;
            let began = Instant::now();
            if step == Step::CreateCanary {
                self.until_canary(pause).await;
            }
            self.pause(pause.saturating_sub(began.elapsed())).await;
            self.observed.forget_after_wait(step);
            if self.context.stop.is_requested() != was_stopping {
                return Ok(());
            }
        }
        self.run.clear_handle(step);
        Ok(())
    }

    /// A pause that ends when a stop is requested. A run that continues after that still pauses.
    async fn pause(&self, pause: Duration) {
        if self.context.stop.is_requested() {
            return sleep(pause).await;
        }
        tokio::select! {
            () = sleep(pause) => {}
            () = self.context.stop.requested() => {}
        }
    }

    /// A pause that ends when the donor is Ready.
    async fn until_ready(&self, pause: Duration) {
        let began = Instant::now();
        let when = boot_before(&self.run).map_or(ReadyWhen::Now, |boot| ReadyWhen::BootedSince(boot.to_owned()));
        if self.context.cluster.wait_ready(&self.node, &when, pause).await.is_ok() {
            return;
        }
        // If the request failed early, wait for the rest of the pause.
        sleep(pause.saturating_sub(began.elapsed())).await;
    }

    /// A pause that ends when the canary's node is Ready. The node is cordoned as soon as it registers.
    async fn until_canary(&mut self, pause: Duration) {
        let cluster = &self.context.cluster;
        let mut seen = None;
        let watched = async {
            let registered = cluster.wait_for_node_change(self.run.header.canary.pool(), &[], pause).await;
            if registered.is_ok()
                && let Ok(Some(node)) = self.cordon_canary().await
            {
                seen = Some(CanaryNode::new(node.name.to_string(), Some(self.context.now())));
                if cluster.wait_ready(&node.name, &ReadyWhen::Now, pause).await.is_ok() {
                    return;
                }
            }
            std::future::pending::<()>().await;
        };
        // Everything is read again afterwards.
        let _ = timeout(pause, watched).await;
        if let Some(seen) = seen {
            let known = self.canary.get_or_insert(seen.clone());
            known.registered = known.registered.or(seen.registered);
        }
    }
}
