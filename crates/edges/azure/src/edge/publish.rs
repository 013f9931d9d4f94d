//! Zone-redundant copies, else local ones.

use kiln_types::{OperationHandle, Publication, Storage};

use super::Azure;
use crate::arm::Error;

impl Azure {
    /// Publishes a version and waits for it. Where the region has no zones the failed version, which stays and blocks its name, is deleted
    /// and the version published with local copies. Each begun publication is handed to `began`, for the journal, before it is waited for.
    /// Returns how the copies are kept.
    pub async fn publish_or_fall_back(
        &self,
        publication: &Publication,
        mut began: impl FnMut(&Publication, &OperationHandle) + Send,
    ) -> Result<Storage, Error> {
        let mut publication = publication.clone();
        loop {
            let outcome = match self.put_version(&publication).await {
                Ok(handle) => {
                    began(&publication, &handle.write());
                    self.arm.settle(&handle).await
                }
                // Some regions refuse at once what others accept and fail.
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
