//! Starting operations and waiting for them.

use std::time::Duration;

use kiln_types::{FactoryError, OperationState};
use tokio::time::Instant;

use super::call::Call;
use super::client::Arm;
use super::error::Error;
use super::operation::{Handle, OperationKind};

/// Time limit for waiting. The slowest observed image version took 6,266 s; after three times that it will not succeed. A caller that wants
/// to wait longer polls the handle itself.
const PATIENCE: Duration = Duration::from_hours(6);
/// Poll interval where Azure names none: short at first because most operations are short, at most 30 s.
const FIRST_POLL: Duration = Duration::from_secs(2);
const LONGEST_POLL: Duration = Duration::from_secs(30);

impl Arm {
    /// Sends the request that starts an operation. Deleting a resource that does not exist succeeds.
    pub(crate) async fn begin(&self, call: &Call, kind: OperationKind, resource: &str) -> Result<Handle, Error> {
        match self.send(call).await {
            Ok(answer) => Ok(Handle::from_answer(&answer, kind, resource, call.api)),
            Err(error) if kind == OperationKind::Delete && error.not_found() => {
                Ok(Handle::ended(kind, resource, call.api))
            }
            Err(error) => Err(error),
        }
    }

    /// Waits for an operation to end.
    pub(crate) async fn settle(&self, handle: &Handle) -> Result<(), Error> {
        let began = Instant::now();
        let mut own_wait = FIRST_POLL;
        if let Some(wait) = handle.first_poll {
            tokio::time::sleep(wait).await;
        }
        loop {
            let progress = match self.poll(handle).await? {
                OperationState::Succeeded => return Ok(()),
                OperationState::Failed(failure) => {
                    return Err(Error::Failed { resource: handle.resource.clone(), failure });
                }
                OperationState::Running(progress) => progress,
            };
            let waited = began.elapsed();
            if waited >= PATIENCE {
                return Err(Error::StillRunning { resource: handle.resource.clone(), waited });
            }
            // A `Retry-After` of zero must not cause a busy loop.
            tokio::time::sleep(progress.retry_after.unwrap_or(own_wait).max(Duration::from_millis(200))).await;
            own_wait = (own_wait * 2).min(LONGEST_POLL);
        }
    }
}
