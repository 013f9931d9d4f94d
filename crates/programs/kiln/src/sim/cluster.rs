//! The cluster of the embedded Azure: an embedded or a real API server, and simulated kubelets. Nodes of the embedded one also have a
//! simulated kilnd.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kiln_sim_azure::tls::Tls;
use kiln_sim_azure::{Sim, Speed};
use kiln_sim_kubernetes::kubelet::{self, Kubelets};
use kiln_sim_kubernetes::serve::Socket;
use kiln_sim_kubernetes::{Clock, Server, Token, write_kubeconfig};
use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::folder::Folder;
use super::kilnds::{Kilnds, Times};
use crate::failure::Failure;

/// Interval of the simulated kubelets. At speed 60 a boot of one minute takes one second.
const TURN: Duration = Duration::from_secs(1);

/// Interval at speed `instant`. A turn without changes is one list of pods, which the embedded cluster answers from
/// memory in under a millisecond; another cluster is not asked that often.
const INSTANT_TURN: Duration = Duration::from_millis(20);

/// A cluster that is ready to run.
pub(crate) struct Cluster {
    client: Client,
    clock: Clock,
    embedded: Option<(Server, Socket, Token)>,
    pub(crate) kubeconfig: PathBuf,
}

impl Cluster {
    /// Opens the embedded cluster of a folder, or creates one in memory if the folder is temporary.
    pub(crate) fn embedded(
        folder: &Folder,
        socket: Socket,
        tls: &Tls,
        seed: u64,
        wall: Timestamp,
    ) -> Result<Self, Failure> {
        let clock = clock(wall);
        let (kubeconfig, token) = folder.kubeconfig();
        let server = match folder {
            Folder::Kept { path, .. } => Server::open(path, seed, clock.clone()).map_err(Failure::input)?,
            Folder::Temporary(_) => Server::new(seed, clock.clone()),
        };
        let server = server.with_scheduler();
        let token = Token::open(&token).map_err(Failure::input)?;
        write_kubeconfig(&kubeconfig, client_address(socket.address), &tls.ca_file, &token).map_err(Failure::input)?;
        let client = Client::new(server.service(), "default");
        Ok(Self { client, clock, embedded: Some((server, socket, token)), kubeconfig })
    }

    /// Connects to the real cluster of a kubeconfig.
    pub(crate) async fn real(path: &Path, wall: Timestamp) -> Result<Self, Failure> {
        let fail = |error: &dyn std::fmt::Display| Failure::file(path, error);
        let kubeconfig = std::path::absolute(path).map_err(|error| fail(&error))?;
        let read = Kubeconfig::read_from(path).map_err(|error| fail(&error))?;
        let config = kube::Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await;
        let mut config = config.map_err(|error| fail(&error))?;
        // A proxy from the environment is not meant for a local cluster.
        config.proxy_url = None;
        kiln_tls::install();
        let client = Client::try_from(config).map_err(|error| fail(&error))?;
        Ok(Self { client, clock: clock(wall), embedded: None, kubeconfig })
    }

    /// Serves an embedded cluster and runs the simulated kubelets until `stop` is set.
    pub(crate) async fn run(self, sim: Sim, speed: Speed, tls: Tls, stop: watch::Receiver<bool>) {
        let Self { client, clock, embedded, .. } = self;
        let turn = if embedded.is_some() && matches!(speed, Speed::Instant) { INSTANT_TURN } else { TURN };
        if embedded.is_some()
            && let Err(error) = kubelet::create_node_agent(&client).await
        {
            eprintln!("warning: cannot create the daemon set of the embedded cluster: {error}");
        }
        // The kilnds of an existing cluster are real.
        let kilnds = Kilnds::new(client.clone(), clock.clone(), Times::at(speed), String::new());
        let kubelets = Kubelets::new(client).with_disks(Arc::new(sim.clone()));
        let kubelets = run_kubelets(kubelets, turn, sim, clock, stop.clone());
        match embedded {
            Some((server, socket, token)) => {
                let kilnds = async {
                    tokio::select! {
                        () = stopped(stop.clone()) => {}
                        () = kilnds.run() => {}
                    }
                };
                tokio::join!(socket.serve(server, tls.config, token, stopped(stop.clone())), kubelets, kilnds);
            }
            None => kubelets.await,
        }
    }
}

/// Waits until `stop` is set or its sender is dropped.
async fn stopped(mut stop: watch::Receiver<bool>) {
    let _ = stop.wait_for(|stopped| *stopped).await;
}

async fn run_kubelets(mut kubelets: Kubelets, turn: Duration, sim: Sim, clock: Clock, stop: watch::Receiver<bool>) {
    let mut stop = pin!(stopped(stop));
    let mut turns = interval(turn);
    turns.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut reported = String::new();
    // Machines that cannot join, with the number of the boot.
    let mut not_joining = BTreeSet::new();
    loop {
        tokio::select! {
            () = &mut stop => return,
            _ = turns.tick() => {}
        }
        let machines = sim.machines();
        for machine in &machines {
            if let Some(why) = &machine.cannot_join
                && not_joining.insert((machine.vm_id.clone(), machine.boots))
            {
                eprintln!("{} does not join the cluster: {why}", machine.node_name());
            }
        }
        let problems = tokio::select! {
            () = &mut stop => return,
            problems = kubelets.turn(&machines, clock()) => problems,
        };
        // Report an unreachable cluster once, not every turn.
        let text = problems.first().map(ToString::to_string).unwrap_or_default();
        if !text.is_empty() && text != reported {
            eprintln!("{text}");
        }
        reported = text;
    }
}

/// Wall-clock time, advanced by the monotonic clock.
fn clock(wall: Timestamp) -> Clock {
    let started = Instant::now();
    Arc::new(move || wall + SignedDuration::try_from(started.elapsed()).unwrap_or(SignedDuration::MAX))
}

/// The address for clients: loopback instead of the unspecified address.
fn client_address(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::from(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::from(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}
