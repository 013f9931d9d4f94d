//! `kiln launch`: creates, lists and deletes single machines from the inputs of `kiln bootstrap`.

mod commands;
mod connection;
mod examples;
mod inputs;
mod show;

use std::sync::Arc;

use clap::{Args, Subcommand, ValueEnum};
use jiff::{SignedDuration, Timestamp};
use kiln_azure::login::Environment;
use kiln_bootstrap::{AksVariables, Bootstrapper, Kilnd, KubeadmJoin};
use kiln_prototype::span::Span;
use kiln_types::MachineName;
use tokio::time::Instant;

use crate::failure::Failure;
use crate::prototype::connect::Now;
use connection::Connection;
use inputs::Inputs;

const EXAMPLES: &str = "Examples:
  kiln launch template --settings settings.yaml --node-pool pool.yaml --node-class class.yaml --out template.json
      Custom data, image and tags for a node provider.
  kiln launch create node-1 --settings settings.yaml --node-pool pool.yaml --node-class class.yaml
  kiln launch create node-1 --settings settings.yaml --pool general --detect
      Reads the NodePool and its class from the cluster, and detects missing values in the cluster and in Azure.
  kiln launch list --owner my-cluster
  kiln launch delete node-1 --owner my-cluster
  kiln launch gc --owner my-cluster --dry-run
      Lists what interrupted launches left behind, without deleting it.

Exit codes: 0 success, 1 failed, 2 usage error or invalid input, 3 the machine has another owner, 130 interrupted.";

#[derive(Debug, Args)]
#[command(arg_required_else_help = true, after_help = EXAMPLES)]
pub(crate) struct Launch {
    #[command(flatten)]
    connection: Connection,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Print the launch template: custom data, image and tags
    #[command(after_help = examples::TEMPLATE)]
    Template(Box<Template>),
    /// Create a machine and its network interface; run it again to complete an interrupted launch
    #[command(after_help = examples::CREATE)]
    Create(Box<Create>),
    /// List the machines of an owner and the remains of interrupted launches
    #[command(after_help = examples::LIST)]
    List(OwnerArgument),
    /// Delete a machine with its network interface and disk
    #[command(after_help = examples::DELETE)]
    Delete(Delete),
    /// Delete what interrupted launches of an owner left behind
    #[command(after_help = examples::GC)]
    Gc(Gc),
}

/// How a node is bootstrapped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum BootstrapperKind {
    /// Node Bootstrapping Variables, for AKS images
    #[default]
    AksVariables,
    /// NodeConfig, for images with kilnd
    Kilnd,
    /// `kubeadm join`, for any image with kubeadm
    KubeadmJoin,
}

impl BootstrapperKind {
    fn bootstrapper(self) -> &'static dyn Bootstrapper {
        match self {
            Self::AksVariables => &AksVariables,
            Self::Kilnd => &Kilnd,
            Self::KubeadmJoin => &KubeadmJoin,
        }
    }
}

#[derive(Debug, Args)]
struct Template {
    #[command(flatten)]
    inputs: Inputs,
    /// Write to a file with mode 0600 instead of standard output
    #[arg(short, long, value_name = "FILE")]
    out: Option<std::path::PathBuf>,
}

#[derive(Debug, Args)]
struct Create {
    /// Name of the machine and its node
    name: MachineName,
    #[command(flatten)]
    inputs: Inputs,
}

#[derive(Debug, Args)]
struct OwnerArgument {
    /// Name of the cluster that the machines were created for
    #[arg(long, value_name = "NAME")]
    owner: String,
}

#[derive(Debug, Args)]
struct Delete {
    /// Name of the machine
    name: MachineName,
    #[command(flatten)]
    owner: OwnerArgument,
}

#[derive(Debug, Args)]
struct Gc {
    #[command(flatten)]
    owner: OwnerArgument,
    /// Minimum age of an interrupted launch
    #[arg(long, value_name = "TIME", default_value = "30m")]
    older_than: Span,
    /// Show what would be deleted without deleting it
    #[arg(long)]
    dry_run: bool,
}

pub(crate) fn run(arguments: &Launch, now: &dyn Fn() -> Timestamp) -> Result<(), Failure> {
    let environment: Environment = std::env::vars().collect();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::failed(format_args!("runtime: {error}")))?;
    let begin = arguments.connection.now.unwrap_or_else(now);
    let result = runtime.block_on(async {
        let started = Instant::now();
        let clock: Now =
            Arc::new(move || begin + SignedDuration::try_from(started.elapsed()).unwrap_or(SignedDuration::MAX));
        let connection = &arguments.connection;
        let work = async {
            match &arguments.verb {
                Verb::Template(verb) => commands::template(connection, verb, &environment, &clock).await,
                Verb::Create(verb) => commands::create(connection, verb, &environment, &clock).await,
                Verb::List(verb) => commands::list(connection, verb, &environment, &clock).await,
                Verb::Delete(verb) => commands::delete(connection, verb, &environment, &clock).await,
                Verb::Gc(verb) => commands::gc(connection, verb, &environment, &clock).await,
            }
        };
        let stop = crate::stop::Stop::new()?;
        tokio::select! {
            done = work => done,
            () = stop.received() => {
                let hint = "run the same command again to complete the launch, or `kiln launch gc` to delete it";
                Err(Failure::new(130, "interrupted").hint(hint))
            }
        }
    });
    runtime.shutdown_background();
    result
}
