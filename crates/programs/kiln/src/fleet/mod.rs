//! Shared parts of the commands of the fleet: the connection to the cluster, its errors, documents from files, and the annotations that say who did something.
//!
//! The commands change objects and return; `kiln operator` does the work. Everything they do is also possible with `kubectl`.

pub(crate) mod document;
mod errors;
pub(crate) mod objects;

use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use jiff::{SignedDuration, Timestamp};
use kiln_azure::login::Environment;
use kiln_kubernetes::{Cluster, Fleet};
use serde::Serialize;
use tokio::time::Instant;

pub(crate) use errors::failure;

use crate::answer::{self, Output};
use crate::failure::Failure;
use crate::prototype::connect::{self, Now};
use crate::stop::Stop;

/// Who created an object with kiln: the user and host, or the pod.
pub(crate) const CREATED_BY: &str = "node.kiln.dev/created-by";
/// The last command of a person on an object, with its time.
pub(crate) const CHANGED_BY: &str = "node.kiln.dev/changed-by";

/// Options that select the cluster.
#[derive(Debug, Clone, Args)]
pub(crate) struct ClusterArgs {
    /// Kubeconfig of the cluster [default: kubectl's]
    #[arg(long, value_name = "FILE", global = true, help_heading = "Kubernetes")]
    kubeconfig: Option<PathBuf>,
    /// Context in the kubeconfig
    #[arg(long, value_name = "NAME", global = true, help_heading = "Kubernetes")]
    context: Option<String>,
    /// Run in a pod, with its service account
    #[arg(long, global = true, help_heading = "Kubernetes")]
    in_cluster: bool,
}

impl ClusterArgs {
    /// Whether it runs in a pod.
    pub(crate) fn in_cluster(&self) -> bool {
        self.in_cluster
    }

    /// Connects to the cluster.
    pub(crate) async fn connect(&self, environment: &Environment, now: &Now) -> Result<Cluster, Failure> {
        let (kubeconfig, context) = (self.kubeconfig.as_deref(), self.context.clone());
        let config = connect::pod_or_file(self.in_cluster, kubeconfig, context, environment).await?;
        connect::cluster_of(config, now)
    }
}

/// Options of commands that print a result.
#[derive(Debug, Clone, Args)]
pub(crate) struct Options {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Output format
    #[arg(long, value_enum, default_value_t, global = true, help_heading = "Output")]
    output: Output,
}

/// A command with what it works with.
pub(crate) struct Session {
    pub(crate) fleet: Fleet,
    pub(crate) output: Output,
    /// Who runs the command.
    pub(crate) who: String,
    clock: Now,
}

impl Session {
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.as_ref()()
    }

    /// Prints the result.
    pub(crate) fn print<T: Serialize>(&self, value: &T, text: impl FnOnce(&T) -> String) -> Result<(), Failure> {
        answer::either(self.output, value, text)
    }

    /// The value of [`CHANGED_BY`] for a command.
    pub(crate) fn changed_by(&self, command: &str) -> String {
        format!("{}, {command}, {}", self.who, time(self.now()))
    }
}

/// A time in whole seconds, as the API has it.
pub(crate) fn time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Runs a command of the fleet until it ends or a signal arrives.
pub(crate) fn run(
    options: &Options,
    now: &dyn Fn() -> Timestamp,
    work: impl AsyncFnOnce(Session) -> Result<(), Failure>,
) -> Result<(), Failure> {
    with_runtime(now, async |clock, environment| {
        let stop = Stop::new()?;
        let command = async {
            let cluster = options.cluster.connect(&environment, &clock).await?;
            let who = connect::who(&environment);
            work(Session { fleet: Fleet::new(&cluster), output: options.output, who, clock }).await
        };
        tokio::select! {
            done = command => done,
            () = stop.received() => Err(Failure::new(130, "interrupted").hint("the operator continues its work")),
        }
    })
}

/// Runs a future with a clock and the environment.
pub(crate) fn with_runtime(
    now: &dyn Fn() -> Timestamp,
    work: impl AsyncFnOnce(Now, Environment) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::failed(format_args!("runtime: {error}")))?;
    let begin = now();
    let result = runtime.block_on(async {
        let started = Instant::now();
        let clock: Now =
            Arc::new(move || begin + SignedDuration::try_from(started.elapsed()).unwrap_or(SignedDuration::MAX));
        work(clock, std::env::vars().collect()).await
    });
    runtime.shutdown_background();
    result
}
