//! Load balancers of the cluster.

use k8s_openapi::api::core::v1::Service;
use kube::Api;
use kube::api::ListParams;

use crate::{Cluster, Error};

impl Cluster {
    /// Whether a Service has a load balancer, which may send traffic to any node.
    pub async fn has_load_balancers(&self) -> Result<bool, Error> {
        let services: Api<Service> = Api::all(self.client.clone());
        let is_balanced = |service: Service| {
            let kind = service.spec.and_then(|spec| spec.type_);
            Ok(kind.filter(|kind| kind == "LoadBalancer"))
        };
        // Servers before 1.32 have no field selector for the type.
        let found = self.list_all("list Services", &services, &ListParams::default(), is_balanced).await?;
        Ok(!found.is_empty())
    }
}
