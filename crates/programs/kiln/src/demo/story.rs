//! The story: a node joins the slow way, another becomes the image, a node joins from it; then a bad one is caught.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use kiln_engine::{RunEnd, Report, Request, Wish, update};
use kiln_sim_azure::{ContentsSpec, Defect, MachineView};
use kiln_types::Factory;
use tokio::time::sleep;

use super::outcome::{Boot, Caught, Node, Outcome};
use super::report::duration;
use super::teller::{Pace, Teller};
use super::world::World;
use crate::failure::Failure;

/// The node that was patched: it becomes the image.
const DONOR: u32 = 0;

/// The node whose clones will not work: a patch that only a fresh boot shows.
const BAD_DONOR: u32 = 4;

pub(super) async fn tell(now: Timestamp, pace: Pace) -> Result<Outcome, Failure> {
    let world = World::start(evening(now)).await?;
    let machines = world.machines();
    let (donor, stale) = (&machines[0], &machines[1]);
    eprintln!("{} nodes in pool {}.", machines.len(), world.pool);
    eprintln!(
        "Their recipe is stale: kernel {}, where {} has {} and every patch.\n",
        stale.contents.kernel, donor.computer_name, donor.contents.kernel
    );

    eprintln!("A new node by the old recipe:");
    let before = grow(&world, pace).await?;
    eprintln!("{:>9}   until it was Ready\n", duration(before.seconds));

    eprintln!("{} becomes the image (* while it is held):", donor.computer_name);
    let (report, teller) = run(&world, DONOR, pace).await?;
    let RunEnd::Completed { version } = &report.ending else {
        return Err(Failure::failed(format_args!("the run did not complete: {}", report.ending)));
    };
    let steps = teller.steps();
    let away = steps.iter().skip_while(|step| step.name != "power-off").take_while(|step| step.name != "unprotect");
    let donor_away: f64 = away.map(|step| step.seconds).sum();
    eprintln!("{:>9}   was the donor away\n", duration(donor_away));

    eprintln!("A new node from the image:");
    let after = grow(&world, pace).await?;
    eprintln!("{:>9}   until it was Ready\n", duration(after.seconds));

    let caught = bad_version(&world, pace).await?;
    Ok(Outcome {
        pool: world.pool.to_string(),
        donor: donor.computer_name.clone(),
        version: version.to_string(),
        before,
        after,
        steps,
        donor_away,
        nodes: nodes(&world).await?,
        caught: Some(caught),
    })
}

async fn run(world: &World, donor: u32, pace: Pace) -> Result<(Report, Arc<Teller>), Failure> {
    let teller = Arc::new(Teller::new(pace, world.quiet.clone()));
    let context = world.context(teller.clone())?;
    let request = Request { node: world.node(donor)?, wish: Wish::default() };
    let report = update(&context, &request).await.map_err(Failure::failed)?;
    teller.pass("done");
    Ok((report, teller))
}

/// After midnight: a node whose clones do not come up is offered, and its canary tells.
async fn bad_version(world: &World, pace: Pace) -> Result<Caught, Failure> {
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
    eprintln!(
        "After midnight, {machine} is offered. It runs well, and a patch on it keeps every fresh boot from working:"
    );
    // Told faster: it is the same run until the canary.
    let faster = match pace {
        Pace::Times(times) => Pace::Times(times * 3.0),
        Pace::Instant => Pace::Instant,
    };
    let (report, _) = run(world, BAD_DONOR, faster).await?;
    let RunEnd::Rejected { version, reason } = &report.ending else {
        return Err(Failure::failed(format_args!("the bad version was not caught: {}", report.ending)));
    };
    let context = world.context(Arc::new(kiln_engine::DiscardEvents))?;
    let pool = std::slice::from_ref(&world.pool);
    let status = kiln_engine::status(&context, pool, None).await.map_err(Failure::failed)?;
    let current = status.pools.iter().flat_map(|pool| &pool.status.versions).find(|version| version.current);
    let gets = current.map(|version| version.number.to_string()).unwrap_or_default();
    eprintln!("            caught by its canary: {reason}\n            new nodes still get {gets}");
    Ok(Caught { version: version.to_string(), donor: machine.to_string(), reason: reason.clone(), new_nodes_get: gets })
}

/// Two hours before midnight: a run lasts for two and some minutes, so the next one makes the next day's version.
fn evening(now: Timestamp) -> Timestamp {
    now - since_midnight(now) + SignedDuration::from_hours(22)
}

fn since_midnight(now: Timestamp) -> SignedDuration {
    // A day is a day of UTC.
    SignedDuration::from_secs(now.as_second().rem_euclid(86_400))
}

/// Adds a node and watches how it comes up.
async fn grow(world: &World, pace: Pace) -> Result<Boot, Failure> {
    let context = world.context(Arc::new(kiln_engine::DiscardEvents))?;
    let known: Vec<String> = world.machines().into_iter().map(|machine| machine.id).collect();
    let pool = context.factory.describe_pool(&world.pool).await.map_err(Failure::failed)?;
    let teller = Teller::new(pace, world.quiet.clone());
    let asked = world.now();
    context.factory.add_instances(&pool, 1).await.map_err(Failure::failed)?;
    world.until_ready().await?;
    let ready = world.now();
    teller.pass("a new node boots");
    let machine = world.machines().into_iter().find(|machine| !known.contains(&machine.id));
    let machine = machine.ok_or_else(|| Failure::failed("the new node is gone"))?;
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
    let seen = world.cluster.nodes_of(&world.pool).await.map_err(Failure::failed)?;
    let nodes = world.machines().into_iter().map(|machine| {
        let ready = seen.iter().any(|node| {
            node.name.as_str() == machine.computer_name && node.readiness == kiln_kubernetes::Readiness::Ready
        });
        let image = machine.image.as_deref().unwrap_or_default();
        Node {
            name: machine.computer_name.clone(),
            // The version of a gallery image; a marketplace image by its words.
            image: image.rsplit_once("/versions/").map_or(image, |(_, version)| version).to_owned(),
            kernel: machine.contents.kernel.clone(),
            state: if ready { "Ready" } else { "not Ready" }.to_owned(),
        }
    });
    Ok(nodes.collect())
}
