//! An embedded Azure behind sockets in this process, and a client of it.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kiln_azure::arm::{Jitter, Scope};
use kiln_azure::login::{Cloud, Identity, Login, ServicePrincipal};
use kiln_azure::wire::{HttpOptions, http_client};
use kiln_azure::{Azure, AzureOptions};
use kiln_cloud::{Factory, OperationHandle, OperationState, SecretText};
use kiln_sim::serve::{Listen, Sockets};
use kiln_sim::tls::Tls;
use kiln_sim::{Options, Sim, Speed, WorldSpec};
use tempfile::TempDir;

use crate::failure::Failure;

/// How often a running operation is looked at: often enough for a bar that moves.
const LOOK: Duration = Duration::from_millis(100);

/// The embedded Azure and how to speak to it. Dropping it leaves nothing.
pub(super) struct Embedded {
    pub(super) azure: Azure,
    pub(super) spec: WorldSpec,
    sim: Sim,
    /// The certificates; gone with this.
    _folder: TempDir,
}

impl Embedded {
    pub(super) async fn start(speed: Speed, now: Timestamp) -> Result<Self, Failure> {
        let folder = tempfile::Builder::new().prefix("kiln-demo-").tempdir().map_err(Failure::failed)?;
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let sockets = Sockets::bind(Listen { arm: any, imds: any, wire: any }).await.map_err(Failure::failed)?;
        let tls = Tls::open(folder.path(), &["localhost".to_owned()], now).map_err(Failure::failed)?;
        let spec = WorldSpec::default();
        let sim = Sim::new(spec.clone(), Options { speed, ..Options::instant(now) }).map_err(Failure::failed)?;
        let arm = format!("https://localhost:{}", sockets.addresses.arm.port());
        let azure = client(&arm, &tls, &spec)?;
        tokio::spawn(sockets.serve(sim.clone(), tls.config, None, std::future::pending()));
        Ok(Self { azure, spec, sim, _folder: folder })
    }

    /// Waits for an operation's end and tells how far it is meanwhile.
    pub(super) async fn finish(
        &self,
        handle: &OperationHandle,
        mut progress: impl FnMut(Option<f64>),
    ) -> Result<(), Failure> {
        loop {
            match self.azure.observe(handle).await.map_err(Failure::failed)? {
                OperationState::Succeeded => return Ok(()),
                OperationState::Failed(failure) => return Err(Failure::failed(failure)),
                OperationState::Running(running) => progress(running.percent),
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// How long the last operation took in the world.
    pub(super) fn last_took(&self) -> SignedDuration {
        self.sim.operations().last().map(|last| last.ends.duration_since(last.started)).unwrap_or_default()
    }
}

fn client(arm: &str, tls: &Tls, spec: &WorldSpec) -> Result<Azure, Failure> {
    kiln_tls::install();
    let http = http_client(&HttpOptions { ca_file: Some(tls.ca_file.clone()), metadata_base: None })
        .map_err(Failure::failed)?;
    let cloud = Cloud::custom("embedded", arm, arm, arm).map_err(Failure::failed)?;
    let first = spec.clients.first().ok_or_else(|| Failure::failed("the world has no client"))?;
    let identity = Identity::ServicePrincipal(ServicePrincipal {
        tenant: spec.tenant_id.clone(),
        client_id: first.client_id.clone(),
        secret: SecretText::new(first.client_secret.as_str()),
    });
    let credential = Login { cloud: cloud.clone(), identity }.credential(&http).map_err(Failure::failed)?;
    let scope = Scope::new(&spec.subscription_id, &spec.resource_group).map_err(Failure::failed)?;
    Ok(Azure::new(scope, AzureOptions { cloud, credential, http, jitter: Jitter::none(), recorder: None }))
}
