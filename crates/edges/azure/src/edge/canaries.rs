//! Canaries: temporary scale sets with one instance.

use kiln_types::{CANARY_TAG, Canary, CanaryName, ImageSource};

use super::Azure;
use crate::arm::{Api, Call, Error, Handle, OperationKind, RequestLine};
use crate::models::canary::{CanaryPut, Template};
use crate::models::image_reference::ImageReference;
use crate::models::scale_set::ScaleSet;

impl Azure {
    pub(super) async fn put_canary(&self, canary: &Canary) -> Result<Handle, Error> {
        let source = self.scale_set(&canary.pool)?;
        // Azure returns user data only on request.
        let read = Call::get(source.as_str(), Api::Compute).query("$expand", "userData");
        let answer = self.arm.send(&read).await?;
        let template: Template = answer.read()?;
        let pool = answer.read::<ScaleSet>()?.read(&self.scope).map_err(super::missing_field(&source))?;
        let exact = ImageSource::ExactVersion(canary.definition.clone(), canary.number.clone());
        let body = CanaryPut::new(
            canary,
            ImageReference::from_source(&exact, &self.scope)?,
            template,
            &pool.recipe.extensions,
        )
        .map_err(super::missing_field(&source))?;
        let id = self.scale_set(canary.name.pool())?;
        let call = Call::put(id.as_str(), Api::Compute, &body).if_absent();
        self.arm.begin(&call, OperationKind::Write, id.as_str()).await
    }

    /// Deletes a canary. Checks its tag first, because a user may have given a pool a canary's name.
    pub(super) async fn delete_canary_set(&self, canary: &CanaryName) -> Result<Handle, Error> {
        let id = self.scale_set(canary.pool())?;
        let found: Option<ScaleSet> = self.arm.find(&Call::get(id.as_str(), Api::Compute)).await?;
        match found {
            Some(set) if !set.tags.contains_key(CANARY_TAG) => Err(Error::Refused {
                request: RequestLine { method: "DELETE".into(), path: id.to_string() },
                why: format!("it has no tag `{CANARY_TAG}`, so kiln did not create it"),
            }),
            Some(_) => self.delete(&id, Api::Compute).await,
            None => Ok(Handle::ended(OperationKind::Delete, id.as_str(), Api::Compute)),
        }
    }
}
