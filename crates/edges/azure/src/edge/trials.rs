//! Throw-away scale sets of one instance.

use kiln_types::{ImageSource, TRIAL_TAG, Trial, TrialName};

use super::Azure;
use crate::arm::{Api, Call, Error, Handle, Kind, RequestLine};
use crate::models::image_reference::ImageReference;
use crate::models::scale_set::ScaleSet;
use crate::models::trial::{Template, TrialPut};

impl Azure {
    pub(super) async fn put_trial(&self, trial: &Trial) -> Result<Handle, Error> {
        let source = self.scale_set(&trial.pool)?;
        let answer = self.arm.send(&Call::get(source.as_str(), Api::Compute)).await?;
        let template: Template = answer.read()?;
        let pool = answer.read::<ScaleSet>()?.read(&self.scope).map_err(super::lacking(&source))?;
        let exact = ImageSource::ExactVersion(trial.line.clone(), trial.number.clone());
        let body = TrialPut::of(trial, ImageReference::of(&exact, &self.scope)?, template, &pool.recipe.extensions);
        let id = self.scale_set(trial.name.pool())?;
        let call = Call::put(id.as_str(), Api::Compute, &body).if_absent();
        self.arm.begin(&call, Kind::Write, id.as_str()).await
    }

    /// The name alone does not make a trial: somebody may have given it to a pool.
    pub(super) async fn delete_trial_set(&self, trial: &TrialName) -> Result<Handle, Error> {
        let id = self.scale_set(trial.pool())?;
        let found: Option<ScaleSet> = self.arm.find(&Call::get(id.as_str(), Api::Compute)).await?;
        match found {
            Some(set) if !set.tags.contains_key(TRIAL_TAG) => Err(Error::Refused {
                request: RequestLine { method: "DELETE".into(), path: id.to_string() },
                why: format!("it has no tag `{TRIAL_TAG}`, so it is no trial of ours"),
            }),
            Some(_) => self.delete(&id, Api::Compute).await,
            None => Ok(Handle::ended(Kind::Delete, id.as_str(), Api::Compute)),
        }
    }
}
