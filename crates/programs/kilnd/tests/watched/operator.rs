//! The real operator with per-node read limits, in a thread of the test.

use std::sync::Arc;
use std::thread::{self, JoinHandle};

use control_plane::ControlPlane;
use jiff::Timestamp;
use kiln_engine::operator::{OperatorOptions, run};
use kiln_engine::{Stop, Stopper};
use kiln_kubernetes::{Cluster, ClusterOptions, Jitter, WallClock};
use kube::config::{KubeConfigOptions, Kubeconfig};

/// A running operator.
pub(crate) struct Operator {
    stopper: Stopper,
    task: JoinHandle<()>,
}

fn now() -> Timestamp {
    Timestamp::from_duration(jiff::SignedDuration::try_from(kilnd::os::clock::wall()).expect("a time")).expect("a time")
}

impl Operator {
    /// Starts it on a control plane, as an administrator.
    pub(crate) fn start(plane: &ControlPlane) -> Self {
        let file = Kubeconfig::read_from(plane.kubeconfig()).expect("a kubeconfig");
        let (stopper, stop) = Stop::pair();
        let task = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                let config = kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await;
                let client = kiln_kubernetes::connect(config.expect("a cluster")).expect("a client");
                let clock = WallClock::new(now);
                let cluster = Cluster::new(client, ClusterOptions { jitter: Jitter::none(), clock });
                let (namespace, name) = ("default".parse().expect("a name"), "operator".parse().expect("a name"));
                let mut options = OperatorOptions::new(namespace, name, Arc::new(now));
                options.per_node_read = true;
                Box::pin(run(cluster, options, stop)).await.expect("the operator runs");
            });
        });
        Self { stopper, task }
    }

    /// Stops it.
    pub(crate) fn stop(self) {
        self.stopper.stop();
        self.task.join().expect("the operator ends");
    }
}
