//! The course of the demo: a node joins from the old recipe, another node becomes the image, a node joins from the image, and a bad image is
//! rejected.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kiln_engine::{DiscardEvents, RunEnd, RunReport, RunRequest, update};
use kiln_prototype::journal::Outcome as RunOutcome;
use kiln_prototype::run::RunOptions;
use kiln_sim_azure::{ContentsSpec, Defect, MachineView};
use kiln_types::Factory;
use tokio::time::sleep;

use super::narrator::{Narrator, Pace};
use super::outcome::{Boot, Node, Outcome, Rejected};
use super::report::duration;
use super::world::World;
use crate::failure::Failure;

/// The patched node that becomes the image.
const DONOR: u32 = 0;

/// The node with a defect that only shows when a clone boots.
const BAD_DONOR: u32 = 4;

pub(super) async fn play(now: Timestamp, pace: Pace) -> Result<Outcome, Failure> {
    let world = World::start(evening(now)).await?;
    let machines = world.machines();
    let (donor, stale) = (&machines[0], &machines[1]);
    eprintln!("Pool {} has {} nodes.", world.pool, machines.len());
    eprintln!(
        "Its recipe is outdated (kernel {}), but {} was patched (kernel {}).\n",
        stale.contents.kernel,
        donor.node_name(),
        donor.contents.kernel
    );

    eprintln!("Add a node from the old recipe:");
    let before = grow(&world, pace).await?;
    eprintln!("{:>9}   until the node is Ready\n", duration(before.seconds));

    eprintln!("Create an image from {} (* marks steps during which the run holds the donor):", donor.node_name());
    let (report, narrator) = run(&world, DONOR, pace).await?;
    let RunEnd::Closed(RunOutcome::Completed { version }) = &report.end else {
        return Err(Failure::failed(format_args!("the run did not complete: {}", report.end)));
    };
    let steps = narrator.steps();
    let away = steps.iter().skip_while(|step| step.name != "power-off").take_while(|step| step.name != "unprotect");
    let donor_away: f64 = away.map(|step| step.seconds).sum();
    eprintln!("{:>9}   donor unavailable in total\n", duration(donor_away));

    eprintln!("Add a node from the image:");
    let after = grow(&world, pace).await?;
    eprintln!("{:>9}   until the node is Ready\n", duration(after.seconds));

    let rejected = reject_bad_version(&world, pace).await?;
    Ok(Outcome {
        pool: world.pool.to_string(),
        donor: donor.node_name(),
        version: version.to_string(),
        before,
        after,
        steps,
        donor_away,
        nodes: nodes(&world).await?,
        rejected: Some(rejected),
    })
}

async fn run(world: &World, donor: u32, pace: Pace) -> Result<(RunReport, Arc<Narrator>), Failure> {
    let narrator = Arc::new(Narrator::new(pace, world.quiet.clone()));
    let context = world.context(narrator.clone())?;
    let request = RunRequest { node: world.node(donor)?, options: RunOptions::default() };
    let report = update(&context, &request).await.map_err(Failure::failed)?;
    narrator.pass("done");
    Ok((report, narrator))
}

/// Runs the operation on a node whose clones do not start. Its canary fails and the version is rejected.
///
/// It waits for midnight first, because there is one version per day.
async fn reject_bad_version(world: &World, pace: Pace) -> Result<Rejected, Failure> {
    while since_midnight(world.now()) > SignedDuration::from_hours(12) {
        sleep(Duration::from_secs(20)).await;
    }
    let machine = world.node(BAD_DONOR)?;
    let defect = ContentsSpec {
        patched: true,
        defects: Some([Defect::CloneNeverReady].into_iter().collect()),
        ..ContentsSpec::default()
    };
    world.sim.alter_machine(machine.as_str(), &defect).map_err(Failure::failed)?;
    eprintln!("The next day: create an image from {machine}. It works, but it has a patch that breaks every new boot:");
    // Three times as fast: up to the canary, the run is the same as before.
    let faster = match pace {
        Pace::Times(times) => Pace::Times(times * 3.0),
        Pace::Instant => Pace::Instant,
    };
    let (report, _) = run(world, BAD_DONOR, faster).await?;
    let RunEnd::Closed(RunOutcome::Rejected { version, reason }) = &report.end else {
        return Err(Failure::failed(format_args!("the bad version was not rejected: {}", report.end)));
    };
    let context = world.context(Arc::new(DiscardEvents))?;
    let pool = std::slice::from_ref(&world.pool);
    let status = kiln_engine::status(&context, pool, None).await.map_err(Failure::failed)?;
    let current = status.pools.iter().flat_map(|pool| &pool.status.versions).find(|version| version.current);
    let current = current.map(|version| version.number.to_string()).unwrap_or_default();
    eprintln!("            {version} was rejected: {reason}\n            new nodes are still created from {current}");
    Ok(Rejected {
        version: version.to_string(),
        donor: machine.to_string(),
        reason: reason.clone(),
        current_version: current,
    })
}

/// 22:00 UTC of the same day. A run takes a little more than two hours, so the next run creates the next day's version.
fn evening(now: Timestamp) -> Timestamp {
    now - since_midnight(now) + SignedDuration::from_hours(22)
}

fn since_midnight(now: Timestamp) -> SignedDuration {
    SignedDuration::from_secs(now.as_second().rem_euclid(86_400))
}

/// Adds a node and records its boot.
async fn grow(world: &World, pace: Pace) -> Result<Boot, Failure> {
    let context = world.context(Arc::new(DiscardEvents))?;
    let known: Vec<String> = world.machines().into_iter().map(|machine| machine.id).collect();
    let pool = context.factory.describe_pool(&world.pool).await.map_err(Failure::failed)?;
    let narrator = Narrator::new(pace, world.quiet.clone());
    let requested = world.now();
    context.factory.add_instances(&pool, 1).await.map_err(Failure::failed)?;
    world.until_ready().await?;
    let ready = world.now();
    narrator.pass("a new node boots");
    let machine = world.machines().into_iter().find(|machine| !known.contains(&machine.id));
    let machine = machine.ok_or_else(|| Failure::failed("the new node disappeared"))?;
    Ok(boot(&machine, requested, ready))
}

fn boot(machine: &MachineView, requested: Timestamp, ready: Timestamp) -> Boot {
    let mut stages = Vec::new();
    let mut from = requested;
    let mut until = |name: &str, end: Timestamp| {
        let seconds = end.duration_since(from).as_secs_f64();
        from = end;
        stages.push((name.to_owned(), seconds.max(0.0)));
    };
    let (mut packages, mut images) = (0, 0);
    if let Some(boot) = &machine.boot {
        until("allocation", boot.started);
        for (name, end) in &boot.stages {
            until(name, *end);
        }
        (packages, images) = (boot.packages_behind, boot.images_to_pull);
    }
    until("join", ready);
    Boot {
        node: machine.node_name(),
        seconds: ready.duration_since(requested).as_secs_f64(),
        stages,
        kernel: machine.contents.kernel.clone(),
        stale_packages: packages,
        images_to_pull: images,
    }
}

async fn nodes(world: &World) -> Result<Vec<Node>, Failure> {
    let registered = world.cluster.nodes_of(&world.pool).await.map_err(Failure::failed)?;
    let nodes = world.machines().into_iter().map(|machine| {
        let is_ready = registered.iter().any(|node| node.name.as_str() == machine.node_name() && node.is_ready());
        let image = machine.image.as_deref().unwrap_or_default();
        Node {
            name: machine.node_name(),
            // A gallery image has a version; a marketplace image is shown in full.
            image: image.rsplit_once("/versions/").map_or(image, |(_, version)| version).to_owned(),
            kernel: machine.contents.kernel.clone(),
            state: if is_ready { "Ready" } else { "not Ready" }.to_owned(),
        }
    });
    Ok(nodes.collect())
}
