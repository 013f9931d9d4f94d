//! The story of the demo: a node joins with the old recipe, another node becomes the image, a node joins from it, and a canary rejects a
//! bad version.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kiln_engine::{DiscardEvents, RunEnd, RunReport, RunRequest, update};
use kiln_prototype::journal::Outcome as RunOutcome;
use kiln_prototype::run::RunOptions;
use kiln_sim_azure::{ContentsSpec, Defect, MachineView};
use kiln_types::Factory;
use tokio::time::sleep;

use super::outcome::{Boot, Node, Outcome, RejectedVersion};
use super::report::duration;
use super::teller::{Pace, Teller};
use super::world::World;
use crate::failure::Failure;

/// The patched node, which becomes the image.
const DONOR: u32 = 0;

/// The node whose clones fail, because of a patch that only matters at a first boot.
const BAD_DONOR: u32 = 4;

pub(super) async fn tell(now: Timestamp, pace: Pace) -> Result<Outcome, Failure> {
    let world = World::start(evening(now)).await?;
    let machines = world.machines();
    let (donor, stale) = (&machines[0], &machines[1]);
    eprintln!("{} nodes in pool {}.", machines.len(), world.pool);
    eprintln!(
        "Their recipe is outdated: kernel {}. Node {} has kernel {} and all patches.\n",
        stale.contents.kernel, donor.computer_name, donor.contents.kernel
    );

    eprintln!("A new node from the old recipe:");
    let before = grow(&world, pace).await?;
    eprintln!("{:>9}   until Ready\n", duration(before.seconds));

    eprintln!("{} becomes the image (* while the run holds it):", donor.computer_name);
    let (report, teller) = run(&world, DONOR, pace).await?;
    let RunEnd::Closed(RunOutcome::Completed { version }) = &report.end else {
        return Err(Failure::failed(format_args!("the run did not complete: {}", report.end)));
    };
    let steps = teller.steps();
    let away = steps.iter().skip_while(|step| step.name != "power-off").take_while(|step| step.name != "unprotect");
    let donor_away: f64 = away.map(|step| step.seconds).sum();
    eprintln!("{:>9}   the donor was away\n", duration(donor_away));

    eprintln!("A new node from the image:");
    let after = grow(&world, pace).await?;
    eprintln!("{:>9}   until Ready\n", duration(after.seconds));

    let rejected = bad_version(&world, pace).await?;
    Ok(Outcome {
        pool: world.pool.to_string(),
        donor: donor.computer_name.clone(),
        version: version.to_string(),
        before,
        after,
        steps,
        donor_away,
        nodes: nodes(&world).await?,
        rejected: Some(rejected),
    })
}

async fn run(world: &World, donor: u32, pace: Pace) -> Result<(RunReport, Arc<Teller>), Failure> {
    let teller = Arc::new(Teller::new(pace, world.quiet.clone()));
    let context = world.context(teller.clone())?;
    let request = RunRequest { node: world.node(donor)?, options: RunOptions::default() };
    let report = update(&context, &request).await.map_err(Failure::failed)?;
    teller.pass("done");
    Ok((report, teller))
}

/// After midnight: a run with a donor whose clones do not become Ready, so that the canary rejects the version.
async fn bad_version(world: &World, pace: Pace) -> Result<RejectedVersion, Failure> {
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
    eprintln!("After midnight, {machine} is the donor. It works, but a patch on it breaks every first boot:");
    // Faster, because it is the same run up to the canary.
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
    let gets = current.map(|version| version.number.to_string()).unwrap_or_default();
    eprintln!("            rejected by its canary: {reason}\n            new nodes still get {gets}");
    Ok(RejectedVersion {
        version: version.to_string(),
        donor: machine.to_string(),
        reason: reason.clone(),
        new_nodes_get: gets,
    })
}

/// Two hours before midnight. A run takes a little longer, so the next one creates the next day's version.
fn evening(now: Timestamp) -> Timestamp {
    now - since_midnight(now) + SignedDuration::from_hours(22)
}

fn since_midnight(now: Timestamp) -> SignedDuration {
    // Days are UTC days.
    SignedDuration::from_secs(now.as_second().rem_euclid(86_400))
}

/// Adds a node and measures its boot.
async fn grow(world: &World, pace: Pace) -> Result<Boot, Failure> {
    let context = world.context(Arc::new(DiscardEvents))?;
    let known: Vec<String> = world.machines().into_iter().map(|machine| machine.id).collect();
    let pool = context.factory.describe_pool(&world.pool).await.map_err(Failure::failed)?;
    let teller = Teller::new(pace, world.quiet.clone());
    let asked = world.now();
    context.factory.add_instances(&pool, 1).await.map_err(Failure::failed)?;
    world.until_ready().await?;
    let ready = world.now();
    teller.pass("a new node boots");
    let machine = world.machines().into_iter().find(|machine| !known.contains(&machine.id));
    let machine = machine.ok_or_else(|| Failure::failed("the new node does not exist"))?;
    Ok(boot(&machine, asked, ready))
}

fn boot(machine: &MachineView, asked: Timestamp, ready: Timestamp) -> Boot {
    let mut stages = Vec::new();
    let mut from = asked;
    let mut until = |name: &str, end: Timestamp| {
        let seconds = end.duration_since(from).as_secs_f64();
        from = end;
        stages.push((name.to_owned(), seconds.max(0.0)));
    };
    let (mut packages, mut images) = (0, 0);
    if let Some(boot) = &machine.boot {
        until("machine", boot.started);
        for (name, end) in &boot.stages {
            until(name, *end);
        }
        (packages, images) = (boot.packages_behind, boot.images_to_pull);
    }
    until("joins", ready);
    Boot {
        node: machine.computer_name.clone(),
        seconds: ready.duration_since(asked).as_secs_f64(),
        stages,
        kernel: machine.contents.kernel.clone(),
        stale_packages: packages,
        images_to_pull: images,
    }
}

async fn nodes(world: &World) -> Result<Vec<Node>, Failure> {
    let nodes = world.cluster.nodes_of(&world.pool).await.map_err(Failure::failed)?;
    let rows = world.machines().into_iter().map(|machine| {
        let ready = nodes.iter().any(|node| node.name.as_str() == machine.computer_name && node.is_ready());
        let image = machine.image.as_deref().unwrap_or_default();
        Node {
            name: machine.computer_name.clone(),
            // The version of a gallery image, or the name of a marketplace image.
            image: image.rsplit_once("/versions/").map_or(image, |(_, version)| version).to_owned(),
            kernel: machine.contents.kernel.clone(),
            state: if ready { "Ready" } else { "not Ready" }.to_owned(),
        }
    });
    Ok(rows.collect())
}
