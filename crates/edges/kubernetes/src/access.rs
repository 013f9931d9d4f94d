//! Checks what the caller is allowed to do, before anything is changed.

use futures_util::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec};
use kube::Api;
use kube::api::PostParams;
use tokio::time::Instant;

use crate::name::Namespace;
use crate::rbac::{Permission, Scope};
use crate::request::RETRY_FOR;
use crate::{Cluster, Error};

/// The same as the number of parallel evictions of a drain.
const PARALLEL: usize = 10;

/// Whether a permission is granted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    pub permission: Permission,
    pub allowed: bool,
    /// The authorizer's explanation; often empty.
    pub reason: String,
}

impl Cluster {
    /// Reviews each permission; those of scope [`Scope::Namespace`] are checked in `namespace`. The results have the order of `permissions`.
    /// Every authenticated caller may review its own access.
    pub async fn check_access(&self, namespace: &Namespace, permissions: &[Permission]) -> Result<Vec<Access>, Error> {
        stream::iter(permissions.iter().copied())
            .map(|permission| self.review(namespace, permission))
            .buffered(PARALLEL)
            .try_collect()
            .await
    }

    async fn review(&self, namespace: &Namespace, permission: Permission) -> Result<Access, Error> {
        let (resource, subresource) = match permission.resource.split_once('/') {
            Some((resource, subresource)) => (resource, Some(subresource.to_owned())),
            None => (permission.resource, None),
        };
        let attributes = ResourceAttributes {
            group: Some(permission.group.to_owned()),
            resource: Some(resource.to_owned()),
            subresource,
            verb: Some(permission.verb.to_owned()),
            namespace: (permission.scope == Scope::Namespace).then(|| namespace.to_string()),
            ..ResourceAttributes::default()
        };
        let review = SelfSubjectAccessReview {
            spec: SelfSubjectAccessReviewSpec {
                resource_attributes: Some(attributes),
                ..SelfSubjectAccessReviewSpec::default()
            },
            ..SelfSubjectAccessReview::default()
        };
        let api: Api<SelfSubjectAccessReview> = Api::all(self.client.clone());
        let (params, deadline) = (PostParams::default(), Instant::now() + RETRY_FOR);
        let action = format!("check whether `{}` on `{}` is allowed", permission.verb, permission.resource);
        let reviewed = self.retry(&action, deadline, || api.create(&params, &review)).await?;
        let status = reviewed.status.unwrap_or_default();
        let reason = [status.reason, status.evaluation_error].into_iter().flatten().filter(|text| !text.is_empty());
        Ok(Access { permission, allowed: status.allowed, reason: reason.collect::<Vec<_>>().join("; ") })
    }
}
