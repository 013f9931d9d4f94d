//! `kiln launch`: single machines, from the inputs of `kiln bootstrap` to what runs.

mod examples;
mod inputs;
mod place;
mod show;
mod verbs;

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
use inputs::Inputs;
use place::Place;

const EXAMPLES: &str = "Examples:
  kiln launch template --settings settings.yaml --node-pool pool.yaml --node-class class.yaml -o template.json
      Custom data, image and tags, as a node provider would take them.
  kiln launch create node-1 --settings settings.yaml --node-pool pool.yaml --node-class class.yaml
  kiln launch create node-1 --settings settings.yaml --pool general --detect
      Pool and class as the cluster has them; what no source says is looked for in the cluster and the cloud.
  kiln launch list --owner my-cluster
  kiln launch delete node-1 --owner my-cluster
  kiln launch gc --owner my-cluster --dry-run
      What launches that were killed have left, by owner and age.

Exit codes: 0 done, 1 failed, 2 usage or bad input, 3 the name is another's, 130 stopped.";

#[derive(Debug, Args)]
#[command(arg_required_else_help = true, after_help = EXAMPLES)]
pub(crate) struct Launch {
    #[command(flatten)]
    place: Place,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Print what machines would be made from: custom data, image, tags
    #[command(after_help = examples::TEMPLATE)]
    Template(Box<Template>),
    /// Make a machine: its interface, then itself; repeating it completes one that was begun
    #[command(after_help = examples::CREATE)]
    Create(Box<Create>),
    /// The machines of an owner, and what is left of those that were begun
    #[command(after_help = examples::LIST)]
    List(Owned),
    /// Delete a machine with all its parts
    #[command(after_help = examples::DELETE)]
    Delete(Delete),
    /// Remove what killed launches left; nothing that another made, and nothing young
    #[command(after_help = examples::GC)]
    Gc(Gc),
}

/// How a node starts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Start {
    /// By the Node Bootstrapping Variables: images of AKS
    #[default]
    AksVariables,
    /// By kiln's own document: images with kilnd
    Kilnd,
    /// By `kubeadm join`: any image with kubeadm
    KubeadmJoin,
}

impl Start {
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
    /// Write to a file that only you can read
    #[arg(short = 'o', long, value_name = "FILE")]
    out: Option<std::path::PathBuf>,
}

#[derive(Debug, Args)]
struct Create {
    /// Name of the machine, and of its node
    name: MachineName,
    #[command(flatten)]
    inputs: Inputs,
}

#[derive(Debug, Args)]
struct Owned {
    /// Cluster that the machines were made for
    #[arg(long, value_name = "NAME")]
    owner: String,
}

#[derive(Debug, Args)]
struct Delete {
    /// Name of the machine
    name: MachineName,
    #[command(flatten)]
    owned: Owned,
}

#[derive(Debug, Args)]
struct Gc {
    #[command(flatten)]
    owned: Owned,
    /// How old a launch must be before it counts as left
    #[arg(long, value_name = "TIME", default_value = "30m")]
    older_than: Span,
    /// Say what would be removed, and remove nothing
    #[arg(long)]
    dry_run: bool,
}

pub(crate) fn run(arguments: &Launch, now: &dyn Fn() -> Timestamp) -> Result<(), Failure> {
    let environment: Environment = std::env::vars().collect();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::failed(format_args!("runtime: {error}")))?;
    let begin = arguments.place.now.unwrap_or_else(now);
    let result = runtime.block_on(async {
        let started = Instant::now();
        let clock: Now =
            Arc::new(move || begin + SignedDuration::try_from(started.elapsed()).unwrap_or(SignedDuration::MAX));
        let place = &arguments.place;
        let work = async {
            match &arguments.verb {
                Verb::Template(verb) => verbs::template(place, verb, &environment, &clock).await,
                Verb::Create(verb) => verbs::create(place, verb, &environment, &clock).await,
                Verb::List(verb) => verbs::list(place, verb, &environment, &clock).await,
                Verb::Delete(verb) => verbs::delete(place, verb, &environment, &clock).await,
                Verb::Gc(verb) => verbs::gc(place, verb, &environment, &clock).await,
            }
        };
        let stop = crate::stop::Stop::new()?;
        tokio::select! {
            done = work => done,
            () = stop.received() => {
                Err(Failure::new(130, "stopped").hint("the same command completes what was begun; `kiln launch gc` removes it"))
            }
        }
    });
    runtime.shutdown_background();
    result
}
