//! Asking the server what this caller may do, before anything is touched.

use futures_util::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec};
use kube::Api;
use kube::api::PostParams;
use tokio::time::Instant;

use crate::call::PATIENCE;
use crate::name::Namespace;
use crate::rbac::{Permission, Scope};
use crate::{Cluster, Error};

/// As many questions at a time as a drain has evictions.
const PARALLEL: usize = 10;

/// Whether a permission is granted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    pub permission: Permission,
    /// Whether the server would let this caller do it.
    pub allowed: bool,
    /// What the server says about it; often nothing.
    pub reason: String,
}

impl Cluster {
    /// Asks the server about each permission, those of a namespace in this one. The answers come in the order of the questions. Everybody
    /// who is known to a server may ask this about himself.
    pub async fn access(&self, namespace: &Namespace, permissions: &[Permission]) -> Result<Vec<Access>, Error> {
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
        let question = SelfSubjectAccessReview {
            spec: SelfSubjectAccessReviewSpec {
                resource_attributes: Some(attributes),
                ..SelfSubjectAccessReviewSpec::default()
            },
            ..SelfSubjectAccessReview::default()
        };
        let api: Api<SelfSubjectAccessReview> = Api::all(self.client.clone());
        let (params, deadline) = (PostParams::default(), Instant::now() + PATIENCE);
        let what = format!("ask whether `{}` on `{}` is allowed", permission.verb, permission.resource);
        let answer = self.persist(&what, deadline, || api.create(&params, &question)).await?;
        let status = answer.status.unwrap_or_default();
        let reason = [status.reason, status.evaluation_error].into_iter().flatten().filter(|said| !said.is_empty());
        Ok(Access { permission, allowed: status.allowed, reason: reason.collect::<Vec<_>>().join("; ") })
    }
}
