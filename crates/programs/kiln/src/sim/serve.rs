//! `kiln sim serve`.

use std::fs;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use clap::Args;
use jiff::Timestamp;
use kiln_sim_azure::serve::{Listen, Log, Sockets};
use kiln_sim_azure::tls::Tls;
use kiln_sim_azure::{FaultPlan, JournalError, OpenError, Options, Sim, Speed, WorldSpec};
use kiln_sim_kubernetes::serve::Socket;
use tokio::sync::watch;

use super::cluster::Cluster;
use super::endpoint::{self, Endpoint};
use super::folder::{self, Folder};
use crate::failure::Failure;
use crate::stop::Stop;

const EXAMPLES: &str = "Examples:
  kiln sim serve
      A pool of ten nodes in memory, one world minute per second, on free ports of this machine.
  kiln sim serve --state ./azure --listen 127.0.0.1:8443
      The same, kept in a folder: what was acknowledged is there again after a crash.
  kiln sim serve --kubeconfig ~/.kube/config
      The machines of the world become nodes of a cluster of yours.
  kiln sim serve --world world.yaml --faults faults.yaml --speed instant --seed 7
      A world of your own where nothing takes time and the same things always go wrong.

When it is ready it prints one line of JSON: arm, authority, imds, wireServer, caFile, tenantId, subscriptionId,
clientId, clientSecret, resourceGroup, location, kubeconfig. `kiln sim env` makes shell variables of it. Logs go to
standard error.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Serve {
    /// World file (YAML or JSON); without one, or with an empty one, the default world
    #[arg(long, value_name = "FILE")]
    world: Option<PathBuf>,
    /// Folder that keeps the world and its certificates
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// Address for ARM and Entra (TLS); port 0 takes a free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Address for the metadata service [default: the IP address of --listen, a free port]
    #[arg(long, value_name = "ADDR")]
    imds_listen: Option<SocketAddr>,
    /// Address for the wire server [default: the IP address of --listen, a free port]
    #[arg(long, value_name = "ADDR")]
    wire_listen: Option<SocketAddr>,
    /// Address for the embedded API server of Kubernetes [default: the IP address of --listen, a free port]
    #[arg(long, value_name = "ADDR", conflicts_with = "kubeconfig")]
    kube_listen: Option<SocketAddr>,
    /// Use the cluster that this file leads to, not an embedded one
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Allow addresses that other machines can reach: whoever reaches them rules this Azure
    #[arg(long)]
    allow_remote: bool,
    /// Another name of this machine for the certificate; the first one is used in URLs
    #[arg(long = "name", value_name = "NAME")]
    names: Vec<String>,
    /// World seconds per second, or `instant`
    #[arg(long, value_name = "FACTOR|instant", default_value = "60")]
    speed: Speed,
    /// Fault plan (YAML)
    #[arg(long, value_name = "FILE")]
    faults: Option<PathBuf>,
    /// Makes what looks random: the same seed gives the same world
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Log each request to standard error
    #[arg(long)]
    log_requests: bool,
}

pub(crate) fn run(arguments: &Serve, now: Timestamp) -> Result<(), Failure> {
    let listen = arguments.listeners()?;
    let faults = match &arguments.faults {
        Some(path) => parse("--faults", path, FaultPlan::parse)?,
        None => FaultPlan::default(),
    };
    let given = match &arguments.world {
        Some(path) => Some((path.as_path(), parse("--world", path, WorldSpec::parse)?)),
        None => None,
    };
    let spec = folder::world(arguments.state.as_deref(), given)?;
    let options = Options { speed: arguments.speed, wall: now, seed: arguments.seed, faults };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::failed(format_args!("runtime: {error}")))?;
    let served = runtime.block_on(serve(arguments, listen, spec, options));
    // A connection that did not end in its grace is cut here.
    runtime.shutdown_background();
    served
}

async fn serve(arguments: &Serve, listen: Listen, spec: WorldSpec, options: Options) -> Result<(), Failure> {
    let stop = Stop::new()?;
    let sockets = Sockets::bind(listen).await.map_err(Failure::input)?;
    let place = match &arguments.kubeconfig {
        Some(path) => Place::Real(Cluster::real(path, options.wall).await?),
        None => Place::Embedded(Socket::bind(arguments.kube_listener()?).await.map_err(Failure::input)?),
    };
    let mut folder = Folder::open(arguments.state.as_deref(), &spec)?;
    let host = endpoint::host(&arguments.names, listen.arm.ip());
    let names: Vec<String> =
        arguments.names.iter().cloned().chain([host.clone()]).chain(own_address(listen.arm.ip())).collect();
    // The world first: whoever holds it holds the folder, certificates and all.
    let (wall, seed) = (options.wall, options.seed);
    let sim = match &arguments.state {
        Some(_) => Sim::open(folder.path(), spec.clone(), options),
        None => Sim::new(spec.clone(), options),
    };
    let sim = sim.map_err(|error| {
        if let OpenError::Log(JournalError::Locked { .. }) = &error {
            // Another start was quicker, and what is in the folder is its own.
            folder.leave();
        }
        match (&error, &arguments.world) {
            (OpenError::World(problem), Some(path)) => Failure::file(path, problem),
            _ => Failure::input(error),
        }
    })?;
    let tls = Tls::open(&folder.tls(), &names, wall).map_err(Failure::input)?;
    let cluster = match place {
        Place::Real(cluster) => cluster,
        Place::Embedded(socket) => Cluster::embedded(&folder, socket, &tls, seed, wall)?,
    };
    let mut endpoint = Endpoint::new(&spec, &host, sockets.addresses, &tls.ca_file);
    endpoint.kubeconfig = Some(cluster.kubeconfig.clone());
    let line = serde_json::to_string(&endpoint).map_err(|error| Failure::failed(format_args!("{error}")))?;
    folder.announce(&line)?;
    announce(&line)?;
    eprintln!(
        "serving ARM and Entra at {}, the metadata service at {}, the wire server at {}",
        endpoint.arm, endpoint.imds, endpoint.wire_server
    );
    let log: Option<Log> = if arguments.log_requests { Some(|line| eprintln!("{line}")) } else { None };
    let (stopping, stopped) = watch::channel(false);
    let config = tls.config.clone();
    let azure = sockets.serve(sim.clone(), config, log, async {
        stop.received().await;
        stopping.send_replace(true);
    });
    tokio::join!(azure, cluster.run(sim, tls, stopped));
    eprintln!("stopped");
    Ok(())
}

/// Where the nodes of the world register.
enum Place {
    Real(Cluster),
    Embedded(Socket),
}

/// Whoever started us waits for this line.
fn announce(line: &str) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{line}")
        .and_then(|()| stdout.flush())
        .map_err(|error| Failure::failed(format_args!("standard output: {error}")))
}

fn parse<T>(option: &str, path: &Path, parser: fn(&str, &str) -> Result<T, String>) -> Result<T, Failure> {
    let name = format!("{option} {}", path.display());
    let text = fs::read_to_string(path).map_err(|error| Failure::input(format_args!("{name}: {error}")))?;
    parser(&name, &text).map_err(Failure::input)
}

/// An address that means all addresses is no name.
fn own_address(address: IpAddr) -> Option<String> {
    (!address.is_unspecified()).then(|| address.to_string())
}

impl Serve {
    fn listeners(&self) -> Result<Listen, Failure> {
        let beside = SocketAddr::new(self.listen.ip(), 0);
        let listen = Listen {
            arm: self.listen,
            imds: self.imds_listen.unwrap_or(beside),
            wire: self.wire_listen.unwrap_or(beside),
        };
        for (option, address) in
            [("--listen", listen.arm), ("--imds-listen", listen.imds), ("--wire-listen", listen.wire)]
        {
            self.check(option, address)?;
        }
        Ok(listen)
    }

    fn kube_listener(&self) -> Result<SocketAddr, Failure> {
        let address = self.kube_listen.unwrap_or(SocketAddr::new(self.listen.ip(), 0));
        self.check("--kube-listen", address)?;
        Ok(address)
    }

    fn check(&self, option: &str, address: SocketAddr) -> Result<(), Failure> {
        if address.ip().to_canonical().is_loopback() || self.allow_remote {
            return Ok(());
        }
        Err(Failure::input(format_args!(
            "{option} {address}: other machines can reach this address; say `--allow-remote` if that is meant, or take {}",
            SocketAddr::from((Ipv4Addr::LOCALHOST, address.port()))
        )))
    }
}
