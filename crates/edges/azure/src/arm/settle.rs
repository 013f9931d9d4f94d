//! Begins operations, and waits for those that a verb must not return before.

use std::time::Duration;

use kiln_types::{FactoryError, OperationHandle, OperationState};
use tokio::time::Instant;

use super::call::Call;
use super::client::Arm;
use super::error::Error;
use super::operation::{Handle, Kind};

/// An image version was seen to take 6,266 s; three times that is a version that will not come. Whoever wants to wait longer holds the handle.
const PATIENCE: Duration = Duration::from_hours(6);
/// Where Azure does not say when to look again: soon at first, since most operations are short, and half a minute at the longest.
const FIRST_LOOK: Duration = Duration::from_secs(2);
const LONGEST_LOOK: Duration = Duration::from_secs(30);

impl Arm {
    /// Sends what begins an operation. Deleting what is gone is done already.
    pub(crate) async fn begin(&self, call: &Call, kind: Kind, resource: &str) -> Result<Handle, Error> {
        match self.send(call).await {
            Ok(answer) => Ok(Handle::of(&answer, kind, resource, call.api)),
            Err(error) if kind == Kind::Delete && error.not_found() => Ok(Handle::ended(kind, resource, call.api)),
            Err(error) => Err(error),
        }
    }

    /// One look at a stored operation, begun by this process or another.
    pub(crate) async fn observe(&self, handle: &OperationHandle) -> Result<OperationState, Error> {
        self.look(&Handle::read(handle)?).await
    }

    /// Waits for an operation's end.
    pub(crate) async fn settle(&self, handle: &Handle) -> Result<(), Error> {
        let began = Instant::now();
        let mut own_wait = FIRST_LOOK;
        if let Some(wait) = handle.first_look {
            tokio::time::sleep(wait).await;
        }
        loop {
            let progress = match self.look(handle).await? {
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
            // A cloud that asks to be looked at at once would be asked without end.
            tokio::time::sleep(progress.retry_after.unwrap_or(own_wait).max(Duration::from_millis(200))).await;
            own_wait = (own_wait * 2).min(LONGEST_LOOK);
        }
    }
}
