//! Fallback from zone-redundant to locally redundant image replicas.

use kiln_types::{OperationHandle, Publication, Storage};

use super::Azure;
use crate::arm::Error;

impl Azure {
    /// Publishes a version and waits for it. In a region without zones the publication fails and leaves a failed version that blocks its
    /// name; it is deleted and the version published again with locally redundant replicas. Calls `began` with the handle of each
    /// publication, for the journal, before waiting. Returns the storage that was used.
    pub async fn publish_or_fall_back(
        &self,
        publication: &Publication,
        mut began: impl FnMut(&Publication, &OperationHandle) + Send,
    ) -> Result<Storage, Error> {
        let mut publication = publication.clone();
        loop {
            let outcome = match self.put_version(&publication).await {
                Ok(handle) => {
                    began(&publication, &handle.encode());
                    self.arm.settle(&handle).await
                }
                // Some regions reject zone redundancy at once, others accept it and fail later.
                Err(error) => Err(error),
            };
            let Err(error) = outcome else { return Ok(publication.storage) };
            let Some(storage) = unsupported(&error).and_then(|failure| publication.storage.fallback(&failure)) else {
                return Err(error);
            };
            let deletion = self.remove_version(&publication.definition, &publication.number).await?;
            self.arm.settle(&deletion).await?;
            publication.storage = storage;
        }
    }
}

fn unsupported(error: &Error) -> Option<kiln_types::Failure> {
    match error {
        Error::Failed { failure, .. } => Some(failure.clone()),
        Error::Answered { detail, class, .. } => {
            Some(kiln_types::Failure { code: detail.code.clone(), message: detail.message.clone(), class: *class })
        }
        _ => None,
    }
}
