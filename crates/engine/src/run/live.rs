//! The snapshot of a running donor.
//!
//! The journal records the step before anything is frozen. From then on the donor thaws itself, whatever happens to this process: kilnd
//! after [`FREEZE_WINDOW`], systemd on the donor after [`THAW_TIMER`](kiln_types::THAW_TIMER). A process that resumes the run deletes the
//! snapshot, because only kilnd's report shows that the file systems were frozen all the time, and starts over.

use std::time::Duration;

use kiln_prototype::decide::{event_after_failure, event_after_live_snapshot};
use kiln_prototype::journal::{Event, StepFailure};
use kiln_prototype::step::Step;
use kiln_types::{ErrorClass, FREEZE_WINDOW, Factory, Node, OperationState, SnapshotRequest};
use tokio::time::sleep;

use super::Runner;
use super::act::Acted;
use crate::error::{cloud_failure, cluster_failure};

/// Poll interval of the snapshot's operation, whatever the cloud suggests: the donor's writes wait for it.
const POLL: Duration = Duration::from_millis(500);

impl<F: Factory> Runner<'_, F> {
    /// Freezes the donor, creates the snapshot and thaws the donor. Returns the event to record.
    pub(super) async fn live_snapshot(&mut self, request: &SnapshotRequest) -> Event {
        self.store_facts().await;
        let report = match self.snapshot_frozen(request).await {
            Ok(report) => report,
            Err(failure) => {
                self.observed = kiln_prototype::observed::Observed::default();
                return event_after_failure(&self.run, Step::LiveSnapshot, failure);
            }
        };
        if let Some(freeze) = &report.freeze {
            let systems = freeze.file_systems.join(", ");
            self.note(format!("{} had {systems} frozen for {} ms", self.node, freeze.frozen_ms)).await;
        }
        event_after_live_snapshot(&self.run, &report)
    }

    async fn snapshot_frozen(&mut self, request: &SnapshotRequest) -> Result<kiln_types::ThawReport, StepFailure> {
        let node = self.donor_node().await?;
        let factory = self.context.factory.as_ref();
        let message = format!("snapshot `{}` was not complete after {} s", request.name, FREEZE_WINDOW.as_secs());
        let mut created = Err(StepFailure::new(ErrorClass::Transient, message));
        let work = Box::pin(async { created = create(factory, request).await });
        let report = self.context.inspector.while_frozen(&node, &self.owner, work).await;
        // A snapshot that failed is the better reason than a thaw that could not be verified.
        created?;
        report.map_err(|error| cluster_failure(&error))
    }

    /// Verifies that nothing on the donor is frozen.
    pub(super) async fn thaw(&mut self) -> Acted {
        let node = self.donor_node().await?;
        let report = self.context.inspector.thaw(&node, &self.owner).await.map_err(|error| cluster_failure(&error))?;
        if !report.thawed.is_empty() {
            self.note(format!("{} had {} still frozen; thawed", self.node, report.thawed.join(", "))).await;
        }
        Ok(None)
    }

    async fn donor_node(&self) -> Result<Node, StepFailure> {
        let missing = || StepFailure::new(ErrorClass::NotFound, format!("node `{}` no longer exists", self.node));
        self.read_node(&self.node).await?.ok_or_else(missing)
    }
}

/// Creates a snapshot and waits until it is complete.
async fn create<F: Factory>(factory: &F, request: &SnapshotRequest) -> Result<(), StepFailure> {
    let handle = factory.snapshot_os_disk(request).await.map_err(|error| cloud_failure(&error))?;
    loop {
        match factory.observe(&handle).await.map_err(|error| cloud_failure(&error))? {
            OperationState::Succeeded => return Ok(()),
            OperationState::Failed(failure) => return Err(StepFailure::new(failure.class, failure.to_string())),
            OperationState::Running(_) => sleep(POLL).await,
        }
    }
}
