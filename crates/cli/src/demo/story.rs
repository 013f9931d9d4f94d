//! The story: a node joins the slow way, another node becomes an image, a node joins from it.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use jiff::{SignedDuration, Timestamp};
use kiln_cloud::{
    Architecture, CaptureRequest, Factory, ImageLine, ImageSource, Instance, OperationHandle, PoolName, PowerDown,
    Publication, RecipeChange, Revision, SecretText, Storage, Tags,
};
use kiln_prototype::names;
use serde::Serialize;

use super::azure::Embedded;
use crate::failure::Failure;

/// Custom data that asks a new node for nothing: all of it is in the image.
const NO_OP: &str = "#cloud-config\n";

/// The node that becomes the image.
const DONOR: usize = 3;

/// What came of it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Outcome {
    pub(super) steps: Vec<Step>,
    pub(super) nodes: Vec<Node>,
    pub(super) before: f64,
    pub(super) after: f64,
}

/// One step and the time that it took in the world.
#[derive(Debug, Serialize)]
pub(super) struct Step {
    pub(super) what: String,
    pub(super) seconds: f64,
}

/// A node of the pool at the end.
#[derive(Debug, Serialize)]
pub(super) struct Node {
    pub(super) name: String,
    pub(super) image: String,
    pub(super) power: String,
}

pub(super) async fn tell(world: &Embedded, now: Timestamp) -> Result<Outcome, Failure> {
    let azure = &world.azure;
    let pool: PoolName = world.spec.pools[0].name.parse().map_err(Failure::failed)?;
    let group = world.spec.resource_group.as_str();
    let mut teller = Teller { world, steps: Vec::new() };

    let described = azure.describe_pool(&pool).await.map_err(Failure::failed)?;
    let instances = azure.instances(&pool).await.map_err(Failure::failed)?;
    let donor = instances.get(DONOR).ok_or_else(|| Failure::failed("the pool has too few nodes"))?.clone();
    eprintln!("{} nodes in pool {pool}; {} is the donor", instances.len(), donor.node_name);
    let before = teller.step("a new node by the old recipe", async || azure.add_instances(&described, 1).await).await?;

    let location = described.location.clone();
    let gallery = names::new_gallery(group, &location).map_err(Failure::failed)?;
    teller.step("gallery", async || azure.create_gallery(&gallery).await).await?;
    let disk = azure.os_disk(&donor).await.map_err(Failure::failed)?;
    let line = ImageLine {
        name: names::line(group, &pool).map_err(Failure::failed)?,
        location: location.clone(),
        generation: disk.generation,
        architecture: Architecture::X64,
        security_type: disk.security_type.clone(),
        identity: names::line_identity(group, &pool),
        plan: None,
        tags: Tags::new(),
    };
    teller.step("image definition", async || azure.create_line(&line).await).await?;
    teller.step("donor off", async || azure.power_off(&pool, &donor.id, PowerDown::KeepHardware).await).await?;
    let tags = Tags::from([
        (names::BUILT_FROM_TAG.to_owned(), donor.node_name.clone()),
        (names::BUILT_AT_TAG.to_owned(), now.to_string()),
    ]);
    let capture = CaptureRequest {
        name: names::capture(&pool).map_err(Failure::failed)?,
        location: location.clone(),
        disk: disk.id,
        tags: tags.clone(),
    };
    teller.step("snapshot of its disk", async || azure.capture_os_disk(&capture).await).await?;
    teller.step("donor on again", async || azure.start(&pool, &donor.id).await).await?;

    let source = azure.find_capture(&capture.name).await.map_err(Failure::failed)?;
    let source = source.ok_or_else(|| Failure::failed("the snapshot is gone"))?;
    let number = names::version_of_day(now);
    let publication = Publication {
        line: line.name.clone(),
        number: number.clone(),
        location: location.clone(),
        source: source.id,
        regions: vec![location],
        replicas: 3,
        storage: Storage::ZoneRedundant,
        excluded: true,
        disk_encryption_set: None,
        tags,
    };
    teller.step(&format!("image version {number}"), async || azure.publish(&publication).await).await?;
    teller.step("version included in latest", async || azure.set_excluded(&line.name, &number, false).await).await?;
    let change = RecipeChange {
        image: Some(ImageSource::Definition(line.name.clone())),
        custom_data: Some(SecretText::new(NO_OP)),
    };
    let revision = revision(azure.describe_pool(&pool).await.map_err(Failure::failed)?.revision)?;
    teller.step("model points at the image", async || azure.set_recipe(&pool, &change, &revision).await).await?;
    for extension in described.recipe.extensions.iter().filter(|extension| extension.is_custom_script()) {
        let what = format!("script extension {} removed", extension.name);
        teller.step(&what, async || azure.remove_extension(&pool, &extension.name).await).await?;
    }
    teller.step("snapshot deleted", async || azure.delete_capture(&capture.name).await).await?;
    let described = azure.describe_pool(&pool).await.map_err(Failure::failed)?;
    let after = teller.step("a new node from the image", async || azure.add_instances(&described, 1).await).await?;

    let nodes = azure.instances(&pool).await.map_err(Failure::failed)?.iter().map(node).collect();
    Ok(Outcome { steps: teller.steps, nodes, before: before.as_secs_f64(), after: after.as_secs_f64() })
}

fn revision(revision: Option<Revision>) -> Result<Revision, Failure> {
    revision.ok_or_else(|| Failure::failed("the pool has no revision to write on"))
}

fn node(instance: &Instance) -> Node {
    let image = match &instance.runs {
        ImageSource::ExactVersion(line, number) => format!("{} {number}", line.definition),
        ImageSource::Definition(line) => line.definition.clone(),
        ImageSource::Marketplace(image) => format!("{} {} {}", image.offer, image.sku, image.version),
        ImageSource::Other(id) => id.clone(),
    };
    Node { name: instance.node_name.clone(), image, power: format!("{:?}", instance.power).to_lowercase() }
}

/// Runs the steps, shows them while they last and keeps their times.
struct Teller<'a> {
    world: &'a Embedded,
    steps: Vec<Step>,
}

impl Teller<'_> {
    async fn step<E: std::fmt::Display>(
        &mut self,
        what: &str,
        begin: impl AsyncFnOnce() -> Result<OperationHandle, E>,
    ) -> Result<SignedDuration, Failure> {
        // Drawn on a terminal only; indicatif keeps still otherwise.
        let bar = ProgressBar::new(100).with_message(what.to_owned()).with_style(style(false));
        bar.enable_steady_tick(Duration::from_millis(100));
        let failed = |problem: &dyn std::fmt::Display| Failure::failed(format_args!("{what}: {problem}"));
        let handle = begin().await.map_err(|error| failed(&error))?;
        let show = |percent: Option<f64>| {
            if let Some(percent) = percent {
                bar.set_style(style(true));
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a percentage")]
                bar.set_position(percent.clamp(0.0, 100.0) as u64);
            }
        };
        self.world.finish(&handle, show).await.map_err(|failure| failed(&failure.message))?;
        let took = self.world.last_took();
        bar.finish_and_clear();
        let seconds = took.as_secs_f64();
        eprintln!("{:>9}  {what}", super::report::duration(seconds));
        self.steps.push(Step { what: what.to_owned(), seconds });
        Ok(took)
    }
}

fn style(with_bar: bool) -> ProgressStyle {
    let template = if with_bar { "{spinner} {msg} {bar:30} {pos} %" } else { "{spinner} {msg}" };
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
