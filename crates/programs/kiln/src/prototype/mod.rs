//! `kiln prototype`: make every new node a copy of the best one.

mod change;
pub(crate) mod common;
pub(crate) mod connect;
mod runs;
mod sides;
mod speaker;
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
use speaker::Speaker;
use values::LogLevel;
use verbs::Verb;

const EXAMPLES: &str = "Examples:
  kiln prototype check-access -g my-cluster
  kiln prototype plan --target-node k8s-pool1-12345678-vmss000000
      What would be done, how long the donor is away, and what speaks against it.
  kiln prototype update --target-node k8s-pool1-12345678-vmss000000
  kiln prototype status
  kiln prototype rollback

Exit codes: 0 done, 1 failed and all given back, or what was asked does not hold, 2 usage or bad \
input, 3 held by another, 4 stuck and needs a person, 130 stopped.";

/// The image of the pods that look into a node, where we are no pod ourselves. It is pulled on the node.
const IMAGE: &str = concat!("kiln:", env!("CARGO_PKG_VERSION"));

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
    let begin = arguments.common.now.unwrap_or_else(now);
    let result = runtime.block_on(async {
        let (started, rate) = (Instant::now(), arguments.common.clock_rate);
        let clock: Now =
            Arc::new(move || begin + SignedDuration::try_from(started.elapsed() * rate).unwrap_or(SignedDuration::MAX));
        let common = &arguments.common;
        if let Some(state) = common.local(&environment) {
            let place = (local::factory::open(&state, &clock)?, kiln_local::ids::GROUP.to_owned());
            return Session::open(place, arguments, &environment, clock).await?.run(&arguments.verb).await;
        }
        let place = connect::azure(common, &environment, &clock).await?;
        Session::open(place, arguments, &environment, clock).await?.run(&arguments.verb).await
    });
    runtime.shutdown_background();
    result
}

/// One command with all that it works with.
pub(crate) struct Session<F> {
    pub(crate) context: Context<F>,
    pub(crate) speaker: Arc<Speaker>,
    output: Output,
}

impl<F: Factory> Session<F> {
    async fn open(
        place: (F, String),
        arguments: &Prototype,
        environment: &Environment,
        now: Now,
    ) -> Result<Self, Failure> {
        let signals = Signals::new()?;
        let common = &arguments.common;
        let speaker = Arc::new(Speaker::new(common, arguments.verb.journal(), &now)?);
        let (stopper, stop) = Stop::pair();
        tokio::spawn(listen(signals, stopper, speaker.clone(), arguments.verb.is_interruptible()));
        let place = connect::connect(place, common, environment, &now).await?;
        let own_node = match place.own_node {
            Some(name) => Some(name.parse().map_err(|error| Failure::input(format_args!("NODE_ID: {error}")))?),
            None => None,
        };
        let image = place.pod_image.unwrap_or_else(|| IMAGE.to_owned());
        let inside = PodInspector::new(&place.cluster, &place.namespace, image).pull_secret(place.pod_pull_secret);
        let inside = Arc::new(inside);
        let context = Context {
            factory: Arc::new(place.factory),
            cluster: place.cluster,
            inside,
            namespace: place.namespace,
            resource_group: place.resource_group,
            ids: ids(&now),
            clock: now,
            own_node,
            who: place.who,
            watcher: speaker.clone(),
            stop,
        };
        Ok(Self { context, speaker, output: common.output })
    }

    async fn run(self, verb: &Verb) -> Result<(), Failure> {
        match verb {
            Verb::Status(verb) => sides::status(&self, verb).await,
            Verb::CheckAccess(verb) => sides::check_access(&self, verb).await,
            Verb::Plan(verb) => sides::plan(&self, verb).await,
            Verb::Update(verb) => runs::update(&self, verb).await,
            Verb::AutoUpdate(verb) => runs::auto_update(&self, verb).await,
            Verb::Rollback(verb) => sides::rollback(&self, verb).await,
            Verb::Refresh(verb) => runs::refresh(&self, verb).await,
            Verb::History(verb) => sides::history(&self, verb).await,
            Verb::Diff(verb) => sides::diff(&self, verb).await,
            Verb::Resume(verb) => runs::resume(&self, verb).await,
        }
    }

    /// Prints the result.
    pub(crate) fn print(&self, text: &str, value: &impl Serialize) -> Result<(), Failure> {
        self.speaker.finish();
        answer::either(self.output, value, |_| text.to_owned())
    }
}

/// The first signal lets the current act end; the second leaves everything as it is.
async fn listen(mut signals: Signals, stopper: Stopper, speaker: Arc<Speaker>, gently: bool) {
    signals.next().await;
    if gently {
        speaker.say(LogLevel::Warning, "stops after the current act; a second signal stops at once");
        stopper.stop();
        signals.next().await;
        speaker.say(LogLevel::Warning, "stopped in the middle; `kiln prototype resume` goes on");
    }
    speaker.finish();
    std::process::exit(130);
}

/// Names that nobody else ever gets: the time to the microsecond, the process, and a count.
fn ids(now: &Now) -> Arc<dyn Fn() -> RunId + Send + Sync> {
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
