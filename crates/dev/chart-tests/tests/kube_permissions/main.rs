//! The operator with exactly the permissions of the chart: together they suffice, and without any of them a named operation fails.

mod fleet;
mod permissions;
mod user;

use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

use control_plane::{ControlPlane, Options};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};

/// A server without controllers, which would delete pods whose owners do not exist.
fn plane() -> &'static ControlPlane {
    static PLANE: OnceLock<ControlPlane> = OnceLock::new();
    PLANE.get_or_init(|| {
        let plane = ControlPlane::start(&Options::bare()).unwrap();
        let file = chart_tests::chart().join("files/fleet-crds.yaml").display().to_string();
        plane.run_kubectl(&["apply", "--server-side", "-f", &file]).unwrap();
        plane.run_kubectl(&["wait", "--for=condition=Established", "--timeout=60s", "-f", &file]).unwrap();
        plane
    })
}

async fn client(kubeconfig: &Path) -> Client {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    kiln_kubernetes::connect(config).unwrap()
}

/// Polls until `check` returns a value. A step that usually takes a second has taken twenty on a machine that compiles.
async fn eventually<T>(what: &str, mut check: impl AsyncFnMut() -> Result<T, String>) -> T {
    let mut last = String::new();
    for _ in 0..900 {
        match check().await {
            Ok(value) => return value,
            Err(found) => last = found,
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("timed out waiting until {what}: {last}");
}
