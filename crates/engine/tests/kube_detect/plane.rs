//! A real API server that the tests of this binary share.

use std::sync::OnceLock;

use control_plane::{ControlPlane, Options};
use kiln_kubernetes::{Cluster, ClusterOptions, Endpoint, Jitter, WallClock, connect};
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig};

/// A control plane without controllers, so that only the tests change objects. It ends with this process.
pub(crate) fn plane() -> &'static ControlPlane {
    static PLANE: OnceLock<ControlPlane> = OnceLock::new();
    PLANE.get_or_init(|| ControlPlane::start(&Options::bare()).unwrap_or_else(|error| panic!("{error}")))
}

pub(crate) fn options() -> ClusterOptions {
    let clock = WallClock::new(|| "2026-01-02T03:04:05Z".parse().unwrap());
    ClusterOptions { jitter: Jitter::none(), clock }
}

pub(crate) async fn config(plane: &ControlPlane) -> Config {
    let kubeconfig = Kubeconfig::read_from(plane.kubeconfig()).unwrap();
    Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap()
}

/// The cluster with administrator credentials.
pub(crate) async fn admin(plane: &ControlPlane) -> (Cluster, Endpoint) {
    let config = config(plane).await;
    let endpoint = Endpoint::from_config(&config);
    (Cluster::new(connect(config).unwrap(), options()), endpoint)
}
