//! `kiln prototype`: create new nodes of a pool from the disk of its best one.

pub(crate) mod common;
pub(crate) mod connect;
mod queries;
mod reporter;
mod run_args;
pub(crate) mod runs;
mod settings_args;
pub(crate) mod values;
mod verbs;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use clap::Args;
use jiff::{SignedDuration, Timestamp};
use kiln_azure::login::Environment;
use kiln_engine::{Context, Stop, Stopper};
use kiln_kubernetes::PodInspector;
use kiln_prototype::run::RunId;
use kiln_types::Factory;
use serde::Serialize;
use tokio::time::Instant;

use crate::answer::{self, Output};
use crate::failure::Failure;
use crate::local;
use crate::stop::Stop as Signals;
use common::Common;
use connect::Now;
use reporter::Reporter;
use values::LogLevel;
use verbs::Verb;

const EXAMPLES: &str = "Examples:
  kiln prototype check-access -g my-cluster
  kiln prototype plan --target-node k8s-pool1-12345678-vmss000000
      Shows what a run would do, how long the donor is away, and what blocks the run.
  kiln prototype update --target-node k8s-pool1-12345678-vmss000000
  kiln prototype status
  kiln prototype rollback

Exit codes: 0 success; 1 failed or refused, with all holds released; 2 invalid usage or input; 3 the pool is in use by \
another process; 4 stuck, a person must act; 130 stopped.";

/// The default image of the pods that inspect nodes.
pub(crate) const IMAGE: &str = concat!("kiln:", env!("CARGO_PKG_VERSION"));

#[derive(Debug, Args)]
#[command(arg_required_else_help = true, after_help = EXAMPLES)]
pub(crate) struct Prototype {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    verb: Verb,
}

pub(crate) fn run(arguments: &Prototype, now: &dyn Fn() -> Timestamp) -> Result<(), Failure> {
    let environment: Environment = std::env::vars().collect();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::failed(format_args!("runtime: {error}")))?;
    let result = runtime.block_on(async {
        let (common, verb) = (&arguments.common, &arguments.verb);
        let clock = clock(common, now);
        let settings = SessionSettings { common, journal: verb.journal(), stops_gracefully: verb.stops_gracefully() };
        if let Some(state) = common.local(&environment) {
            let factory = local_factory(&state, &clock)?;
            return Session::open(factory, settings, &environment, clock).await?.run(verb).await;
        }
        let factory = connect::azure(common, &environment, &clock).await?;
        Session::open(factory, settings, &environment, clock).await?.run(verb).await
    });
    runtime.shutdown_background();
    result
}

/// The clock of a command, which starts now or at `--now`.
pub(crate) fn clock(common: &Common, now: &dyn Fn() -> Timestamp) -> Now {
    let (begin, started, rate) = (common.now.unwrap_or_else(now), Instant::now(), common.clock_rate);
    Arc::new(move || begin + SignedDuration::try_from(started.elapsed() * rate).unwrap_or(SignedDuration::MAX))
}

/// The factory of `kiln local`, with its resource group.
pub(crate) fn local_factory(state: &std::path::Path, clock: &Now) -> Result<(local::factory::Local, String), Failure> {
    Ok((local::factory::open(state, clock)?, kiln_local::ids::GROUP.to_owned()))
}

/// What a [`Session`] needs of the command line.
#[derive(Clone, Copy)]
pub(crate) struct SessionSettings<'a> {
    pub(crate) common: &'a Common,
    /// The file of `--journal`.
    pub(crate) journal: Option<&'a std::path::Path>,
    /// Whether the first signal only requests a stop.
    pub(crate) stops_gracefully: bool,
}

/// A command with everything that it works with.
pub(crate) struct Session<F> {
    pub(crate) context: Context<F>,
    pub(crate) reporter: Arc<Reporter>,
    output: Output,
}

impl<F: Factory> Session<F> {
    /// Connects to the cluster of a factory.
    pub(crate) async fn open(
        factory: (F, String),
        SessionSettings { common, journal, stops_gracefully }: SessionSettings<'_>,
        environment: &Environment,
        now: Now,
    ) -> Result<Self, Failure> {
        let signals = Signals::new()?;
        let reporter = Arc::new(Reporter::new(common, journal, &now)?);
        let (stopper, stop) = Stop::pair();
        tokio::spawn(listen(signals, stopper, reporter.clone(), stops_gracefully));
        let connection = connect::connect(factory, common, environment, &now).await?;
        let own_node = match connection.own_node {
            Some(name) => Some(name.parse().map_err(|error| Failure::input(format_args!("NODE_ID: {error}")))?),
            None => None,
        };
        let image = connection.pod_image.unwrap_or_else(|| IMAGE.to_owned());
        let inspector = PodInspector::new(&connection.cluster, &connection.namespace, image);
        let context = Context {
            factory: Arc::new(connection.factory),
            cluster: connection.cluster,
            inspector: Arc::new(inspector.pull_secret(connection.pod_pull_secret)),
            namespace: connection.namespace,
            resource_group: connection.resource_group,
            ids: ids(&now),
            clock: now,
            own_node,
            who: connection.who,
            events: reporter.clone(),
            stop,
        };
        Ok(Self { context, reporter, output: common.output })
    }

    async fn run(self, verb: &Verb) -> Result<(), Failure> {
        match verb {
            Verb::Status(verb) => queries::status(&self, verb).await,
            Verb::CheckAccess(verb) => queries::check_access(&self, verb).await,
            Verb::Plan(verb) => queries::plan(&self, verb).await,
            Verb::Update(verb) => runs::update(&self, verb).await,
            Verb::AutoUpdate(verb) => runs::auto_update(&self, verb).await,
            Verb::Rollback(verb) => queries::rollback(&self, verb).await,
            Verb::Refresh(verb) => runs::refresh(&self, verb).await,
            Verb::History(verb) => queries::history(&self, verb).await,
            Verb::Diff(verb) => queries::diff(&self, verb).await,
            Verb::Resume(verb) => runs::resume(&self, verb).await,
            Verb::Repair(verb) => queries::repair(&self, verb).await,
            Verb::Gc(verb) => queries::gc(&self, verb).await,
            Verb::Release(verb) => queries::release(&self, verb).await,
        }
    }

    /// Prints the result.
    pub(crate) fn print(&self, text: &str, value: &impl Serialize) -> Result<(), Failure> {
        self.reporter.finish();
        answer::either(self.output, value, |_| text.to_owned())
    }
}

/// Handles signals: the first requests a stop after the current action, the second ends the process at once.
async fn listen(mut signals: Signals, stopper: Stopper, reporter: Arc<Reporter>, gracefully: bool) {
    signals.next().await;
    if gracefully {
        reporter.print(LogLevel::Warning, "stopping after the current action; a second signal stops at once");
        stopper.stop();
        signals.next().await;
        reporter
            .print(LogLevel::Warning, "stopped during an action; repeat the command or run `kiln prototype resume`");
    }
    reporter.finish();
    std::process::exit(130);
}

/// Unique ids: the time in microseconds, the process id, and a counter.
pub(crate) fn ids(now: &Now) -> Arc<dyn Fn() -> RunId + Send + Sync> {
    let (now, count) = (now.clone(), AtomicU32::new(0));
    Arc::new(move || {
        let micros = now.as_ref()().as_microsecond();
        let count = count.fetch_add(1, Ordering::Relaxed);
        let text = format!("{}p{}n{count}", base36(micros.unsigned_abs()), base36(std::process::id().into()));
        text.parse().expect("digits and lower-case letters")
    })
}

fn base36(mut number: u64) -> String {
    let mut digits = Vec::new();
    loop {
        digits.push(char::from_digit((number % 36) as u32, 36).unwrap_or('0'));
        number /= 36;
        if number == 0 {
            return digits.into_iter().rev().collect();
        }
    }
}
