//! Waits: for operations of the cloud, for nodes, or for a while.

use std::time::Duration;

use kiln_kubernetes::ReadyWhen;
use kiln_prototype::decide::{Wait, settled};
use kiln_prototype::journal::{Memo, StepFailure};
use kiln_prototype::observed::Observed;
use kiln_prototype::step::Step;
use kiln_types::{Factory, FactoryError, OperationHandle, OperationState};
use tokio::time::{Instant, sleep, timeout};

use crate::carry::Carrier;
use crate::error::Error;
use crate::news::RunEventKind;

/// Where the cloud does not say when to look again: soon at first, since most operations are short, and half a minute at the longest.
const FIRST_LOOK: Duration = Duration::from_secs(2);
const LONGEST_LOOK: Duration = Duration::from_secs(30);

/// A cloud that asks to be looked at at once would be asked without end.
const SHORTEST_LOOK: Duration = Duration::from_millis(200);

/// After this time an operation is not believed any more and the resource itself is read. Three times the longest that was seen of any.
const OPERATION_PATIENCE: Duration = Duration::from_hours(6);

impl<F: Factory> Carrier<'_, F> {
    pub(crate) async fn wait(&mut self, wait: Wait) -> Result<(), Error> {
        match wait {
            Wait::Operation { step, handle } => self.follow(step, &handle).await,
            Wait::For { step, pause, why } => {
                self.tell(RunEventKind::Waiting { step, why, percent: None, pause }).await;
                match step {
                    Step::AwaitReady => self.until_ready(pause).await,
                    Step::AwaitCanary => self.until_canary(pause).await,
                    _ => self.rest(pause).await,
                }
                self.seen = Observed::default();
                Ok(())
            }
        }
    }

    /// Follows an operation to its end. What it left behind is read afterwards, whatever it says.
    async fn follow(&mut self, step: Step, handle: &OperationHandle) -> Result<(), Error> {
        let (began, told) = (Instant::now(), self.context.stop.is_told());
        let mut own = FIRST_LOOK;
        loop {
            let progress = match self.context.factory.observe(handle).await {
                Ok(OperationState::Succeeded) => {
                    return match settled(&mut self.run, step) {
                        Some(event) => self.record(event).await,
                        None => Ok(()),
                    };
                }
                Ok(OperationState::Failed(failure)) => {
                    let failure = StepFailure::new(failure.class, failure.to_string());
                    return self.fail(step, failure).await;
                }
                Ok(OperationState::Running(_)) if began.elapsed() >= OPERATION_PATIENCE => break,
                Ok(OperationState::Running(progress)) => progress,
                // The operation is forgotten: the resource tells.
                Err(error) if error.not_found() => break,
                Err(error) => {
                    self.note(format!("{step}: its operation cannot be asked after: {error}")).await;
                    self.rest(LONGEST_LOOK).await;
                    break;
                }
            };
            let pause = progress.retry_after.unwrap_or(own).max(SHORTEST_LOOK);
            own = (own * 2).min(LONGEST_LOOK);
            let why = "the operation goes on".to_owned();
            self.tell(RunEventKind::Waiting { step, why, percent: progress.percent, pause }).await;
            let began = Instant::now();
            if step == Step::CreateCanary {
                self.until_canary(pause).await;
            }
            self.rest(pause.saturating_sub(began.elapsed())).await;
            self.seen = Observed::default();
            if self.context.stop.is_told() != told {
                return Ok(());
            }
        }
        self.run.settle(step);
        Ok(())
    }

    /// A pause that ends when the operation is told to stop; one that goes on after that has its pauses all the same.
    async fn rest(&self, pause: Duration) {
        if self.context.stop.is_told() {
            return sleep(pause).await;
        }
        tokio::select! {
            () = sleep(pause) => {}
            () = self.context.stop.told() => {}
        }
    }

    /// A pause that ends when the donor is Ready.
    async fn until_ready(&self, pause: Duration) {
        let began = Instant::now();
        let when = match self.run.step(Step::PowerOff).and_then(|progress| progress.memo.as_ref()) {
            Some(Memo::Boot(Some(boot))) if self.run.is_begun(Step::Start) => ReadyWhen::BootedSince(boot.clone()),
            _ => ReadyWhen::Now,
        };
        if self.context.cluster.wait_ready(&self.node, &when, pause).await.is_ok() {
            // It is Ready, and something else is missing.
            return sleep(SHORTEST_LOOK).await;
        }
        // An answer that came too soon was a refusal.
        sleep(pause.saturating_sub(began.elapsed())).await;
    }

    /// A pause that ends when the canary's node is there and Ready; it is cordoned on the way.
    async fn until_canary(&mut self, pause: Duration) {
        if self.canary.is_none() {
            let made = self.context.factory.instances(self.run.header.canary.pool()).await;
            self.canary = made.ok().and_then(|made| made.into_iter().next()).map(|instance| instance.node_name);
        }
        let Some(canary) = &self.canary else { return self.rest(pause).await };
        let watched = async {
            if let Ok(node) = canary.parse() {
                let cluster = &self.context.cluster;
                let born = cluster.cordon_at_birth(&node, &self.owner, pause).await;
                if born.is_ok() && cluster.wait_ready(&node, &ReadyWhen::Now, pause).await.is_ok() {
                    return;
                }
            }
            std::future::pending::<()>().await;
        };
        // In time or not, everything is read anew.
        let _ = timeout(pause, watched).await;
    }
}
