//! `kiln sim serve`.

use std::fs;
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
use crate::answer;
use crate::failure::Failure;
use crate::stop::Stop;

const EXAMPLES: &str = "Examples:
  kiln sim serve
      A pool of ten nodes in memory, one simulated minute per second, on free ports of this host.
  kiln sim serve --state ./azure --listen 127.0.0.1:8443
      The same with state in a folder. Acknowledged changes survive a crash.
  kiln sim serve --kubeconfig ~/.kube/config
      The simulated machines become nodes of an existing cluster.
  kiln sim serve --world world.yaml --faults faults.yaml --speed instant --seed 7
      A custom world in which operations take no time and faults are reproducible.

When it is ready, it prints one line of JSON with arm, authority, imds, wireServer, caFile, tenantId, subscriptionId,
clientId, clientSecret, resourceGroup, location and kubeconfig. `kiln sim env` converts it to shell variables. Logs are
written to standard error.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Serve {
    /// World file (YAML or JSON) [default: a pool of ten nodes]
    #[arg(long, value_name = "FILE")]
    world: Option<PathBuf>,
    /// Folder for the state and the certificates [default: in memory]
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// Address for ARM and Entra (TLS); port 0 selects a free port
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// Address for the metadata service [default: the IP address of --listen, a free port]
    #[arg(long, value_name = "ADDR")]
    imds_listen: Option<SocketAddr>,
    /// Address for the wire server [default: the IP address of --listen, a free port]
    #[arg(long, value_name = "ADDR")]
    wire_listen: Option<SocketAddr>,
    /// Address for the embedded Kubernetes API server [default: the IP address of --listen, a free port]
    #[arg(long, value_name = "ADDR", conflicts_with = "kubeconfig")]
    kube_listen: Option<SocketAddr>,
    /// Use the cluster of this kubeconfig instead of the embedded one
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Allow addresses that other machines can reach; anyone who can connect has full access
    #[arg(long)]
    allow_remote: bool,
    /// Additional host name for the certificate; the first one is used in URLs
    #[arg(long = "name", value_name = "NAME")]
    names: Vec<String>,
    /// Simulated seconds per second, or `instant`
    #[arg(long, value_name = "FACTOR|instant", default_value = "60")]
    speed: Speed,
    /// Fault plan (YAML)
    #[arg(long, value_name = "FILE")]
    faults: Option<PathBuf>,
    /// Seed for random values; the same seed gives the same world
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
        .map_err(|error| Failure::failed(format_args!("cannot start the async runtime: {error}")))?;
    let served = runtime.block_on(serve(arguments, listen, spec, options));
    // Closes connections that are still open after the grace period.
    runtime.shutdown_background();
    served
}

async fn serve(arguments: &Serve, listen: Listen, spec: WorldSpec, options: Options) -> Result<(), Failure> {
    let stop = Stop::new()?;
    let sockets = Sockets::bind(listen).await.map_err(Failure::input)?;
    let target = match &arguments.kubeconfig {
        Some(path) => Target::Real(Cluster::real(path, options.wall).await?),
        None => Target::Embedded(Socket::bind(arguments.kube_listener()?).await.map_err(Failure::input)?),
    };
    let mut folder = Folder::open(arguments.state.as_deref(), &spec)?;
    let host = endpoint::host(&arguments.names, listen.arm.ip());
    let names: Vec<String> =
        arguments.names.iter().cloned().chain([host.clone()]).chain(address_name(listen.arm.ip())).collect();
    // Open the world first: its lock protects the whole folder, including the certificates.
    let (wall, seed) = (options.wall, options.seed);
    let sim = match &arguments.state {
        Some(_) => Sim::open(folder.path(), spec.clone(), options),
        None => Sim::new(spec.clone(), options),
    };
    let sim = sim.map_err(|error| {
        if let OpenError::Log(JournalError::Locked { .. }) = &error {
            // Another process uses the folder, so the files are not ours to delete.
            folder.keep();
        }
        match (&error, &arguments.world) {
            (OpenError::World(problem), Some(path)) => Failure::file(path, problem),
            _ => Failure::input(error),
        }
    })?;
    let tls = Tls::open(&folder.tls(), &names, wall).map_err(Failure::input)?;
    let cluster = match target {
        Target::Real(cluster) => cluster,
        Target::Embedded(socket) => Cluster::embedded(&folder, socket, &tls, seed, wall)?,
    };
    let mut endpoint = Endpoint::new(&spec, &host, sockets.addresses, &tls.ca_file);
    endpoint.kubeconfig = Some(cluster.kubeconfig.clone());
    let line = serde_json::to_string(&endpoint).map_err(|error| Failure::failed(format_args!("{error}")))?;
    folder.write_endpoint(&line)?;
    answer::print(&format!("{line}\n"))?;
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
    tokio::join!(azure, cluster.run(sim, arguments.speed, tls, stopped));
    eprintln!("stopped");
    Ok(())
}

/// The cluster in which the simulated machines register.
enum Target {
    Real(Cluster),
    Embedded(Socket),
}

fn parse<T>(option: &str, path: &Path, parser: fn(&str, &str) -> Result<T, String>) -> Result<T, Failure> {
    let name = format!("{option} {}", path.display());
    let text = fs::read_to_string(path).map_err(|error| Failure::input(format_args!("{name}: {error}")))?;
    parser(&name, &text).map_err(Failure::input)
}

/// The listen address as a name for the certificate, unless it is the unspecified address.
fn address_name(address: IpAddr) -> Option<String> {
    (!address.is_unspecified()).then(|| address.to_string())
}

impl Serve {
    fn listeners(&self) -> Result<Listen, Failure> {
        let free_port = SocketAddr::new(self.listen.ip(), 0);
        let listen = Listen {
            arm: self.listen,
            imds: self.imds_listen.unwrap_or(free_port),
            wire: self.wire_listen.unwrap_or(free_port),
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
        let local = SocketAddr::from((Ipv4Addr::LOCALHOST, address.port()));
        Err(Failure::input(format_args!("{option} {address}: other machines can reach this address"))
            .hint(format_args!("use `{local}`, or allow remote access with `--allow-remote`")))
    }
}
