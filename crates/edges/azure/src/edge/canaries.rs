//! Canaries: temporary scale sets with one instance.

use std::collections::BTreeSet;

use kiln_types::{CANARY_TAG, Canary, CanaryName, FactoryError as _, ImageSource};

use super::Azure;
use crate::arm::{Api, Call, Error, Handle, OperationKind, RequestLine, ResourceId};
use crate::models::canary::{CanaryPut, Template};
use crate::models::image_reference::ImageReference;
use crate::models::load_balancer::{LoadBalancer, balancer_of};
use crate::models::scale_set::ScaleSet;

impl Azure {
    pub(super) async fn put_canary(&self, canary: &Canary) -> Result<Handle, Error> {
        let source = self.scale_set(&canary.pool)?;
        // Azure returns user data only on request.
        let answer = self.arm.send(&Call::get(source.as_str(), Api::Compute).query("$expand", "userData")).await?;
        let mut template: Template = answer.read()?;
        let outbound = self.outbound_pools(&template).await?;
        template.keep_backend_pools(|pool| outbound.contains(pool));
        let pool = answer.read::<ScaleSet>()?.read(&self.galleries).map_err(super::missing_field(&source))?;
        let exact = ImageSource::ExactVersion(canary.definition.clone(), canary.number.clone());
        let body = CanaryPut::new(
            canary,
            ImageReference::from_source(&exact, &self.galleries)?,
            template,
            &pool.recipe.extensions,
        )
        .map_err(super::missing_field(&source))?;
        let id = self.scale_set(canary.name.pool())?;
        let call = Call::put(id.as_str(), Api::Compute, &body).if_absent();
        self.arm.begin(&call, OperationKind::Write, id.as_str()).await
    }

    /// The backend pools of a template that only serve outbound connections. A load balancer that cannot be read has none: the canary then
    /// lacks outbound access at worst, while it must never receive traffic.
    async fn outbound_pools(&self, template: &Template) -> Result<BTreeSet<String>, Error> {
        let mut outbound = BTreeSet::new();
        for pool in template.backend_pools() {
            let Some(balancer) = balancer_of(pool) else { continue };
            let balancer: ResourceId = balancer.parse()?;
            match self.arm.find::<LoadBalancer>(&Call::get(balancer.as_str(), Api::Network)).await {
                Ok(Some(balancer)) if balancer.is_outbound_only(pool) => _ = outbound.insert(pool.to_owned()),
                Ok(_) => {}
                Err(error) if error.permission() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(outbound)
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
