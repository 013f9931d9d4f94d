//! Reads everything that a run has to know before it begins, and settles what does not change afterwards.

use kiln_cloud::{Factory, ImageLine, ImageSource, ImageVersion, Instance, OsDisk, Pool, Tags, TrialName};
use kiln_cluster::{NodeSeen, Owner};
use kiln_node_plan::Inspection;
use kiln_prototype::history::replicas;
use kiln_prototype::journal::StepFailure;
use kiln_prototype::latest::version_of;
use kiln_prototype::names;
use kiln_prototype::provenance::{Provenance, merge};
use kiln_prototype::run::{Donor, Header, Policy, RunId, SCHEMA};

use crate::carry::Carrier;
use crate::context::Context;
use crate::error::{Error, of_cluster};
use crate::news::Happening;
use crate::request::Wish;

/// Everything that a run has to know before it begins.
pub(crate) struct Gathered {
    pub(crate) pool: Pool,
    pub(crate) instance: Instance,
    pub(crate) disk: OsDisk,
    pub(crate) line: Option<ImageLine>,
    pub(crate) versions: Vec<ImageVersion>,
    pub(crate) inspection: Inspection,
}

impl Gathered {
    /// Reads it. Nothing is changed, but a pod that reads runs on the node for a moment.
    pub(crate) async fn read<F: Factory>(
        context: &Context<F>,
        node: &NodeSeen,
        place: &Place,
        run: &RunId,
    ) -> Result<Self, Error> {
        let factory = context.factory.as_ref();
        let Place { pool, instance } = place;
        let pool = factory.describe_pool(pool).await.map_err(Error::cloud(format!("read pool {pool}")))?;
        let what = format!("read instance {instance} of {}", pool.name);
        let instance = factory.describe_instance(&pool.name, instance).await.map_err(Error::cloud(what))?;
        let disk = factory.os_disk(&instance).await.map_err(Error::cloud(format!("read the disk of {}", node.name)))?;
        let name = names::line(&context.resource_group, &pool.name)?;
        let what = format!("read image definition {}", name.definition);
        let line = factory.find_line(&name).await.map_err(Error::cloud(what))?;
        let versions = match &line {
            Some(_) => {
                let what = format!("read the versions of {}", name.definition);
                factory.versions(&name).await.map_err(Error::cloud(what))?
            }
            None => Vec::new(),
        };
        let owner = owner_of(run);
        context.tell(&pool.name, Some(run), Happening::Inspecting(node.name.clone())).await;
        let inspection = context.inside.inspect(node, &owner).await?;
        Ok(Self { pool, instance, disk, line, versions, inspection })
    }

    /// What is settled when the run opens.
    pub(crate) fn header<F: Factory>(
        &self,
        context: &Context<F>,
        node: &NodeSeen,
        wish: &Wish,
        run: &RunId,
    ) -> Result<Header, Error> {
        let Self { pool, instance, disk, inspection, .. } = self;
        let started = context.now();
        let line = ImageLine {
            name: names::line(&context.resource_group, &pool.name)?,
            location: pool.location.clone(),
            generation: disk.generation,
            architecture: disk.architecture,
            security_type: disk.security_type.clone(),
            identity: names::line_identity(&context.resource_group, &pool.name),
            plan: pool.plan.clone(),
            tags: Tags::new(),
        };
        let provenance = Provenance::of(
            node.name.as_str(),
            started,
            inspection,
            ancestors(&instance.runs, &line, &self.versions),
            run.as_str(),
            &context.who,
        );
        let grown = pool.capacity.saturating_add(wish.policy.new_nodes);
        Ok(Header {
            schema: SCHEMA,
            pool: pool.name.clone(),
            donor: Donor {
                node: node.name.to_string(),
                instance: instance.id.clone(),
                vm_id: instance.vm_id.clone(),
                os_disk: disk.id.clone(),
                has_first_boot: inspection.first_boot_unit.is_some(),
            },
            started,
            version: names::version_of_day(started),
            who: context.who.clone(),
            policy: Policy { replicas: replicas(grown, wish.replicas), ..wish.policy.clone() },
            gallery: names::new_gallery(&context.resource_group, &pool.location)?,
            line,
            capture: names::capture(&pool.name)?,
            trial: TrialName::of_run(run.as_str())?,
            tags: merge(&wish.tags, &provenance.tags())?,
        })
    }

    /// What speaks against the run.
    pub(crate) fn refusals(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Which machine a node is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) pool: kiln_cloud::PoolName,
    pub(crate) instance: kiln_cloud::InstanceId,
}

impl Place {
    /// By the provider id, or by the name where there is none yet.
    pub(crate) fn of(node: &NodeSeen) -> Result<Self, Error> {
        if let Some(machine) = node.machine() {
            return Ok(Self { pool: machine.pool, instance: machine.instance });
        }
        let (pool, instance) = kiln_prototype::node_name::instance_of(node.name.as_str())
            .map_err(|source| Error::NotOfAPool { node: node.name.clone(), source })?;
        Ok(Self { pool, instance })
    }
}

/// The run as nodes and pods know it.
pub(crate) fn owner_of(run: &RunId) -> Owner {
    run.as_str().parse().expect("lower-case letters and digits are an owner")
}

/// The donor's own version and those before it, the nearest first.
fn ancestors(runs: &ImageSource, line: &ImageLine, versions: &[ImageVersion]) -> Vec<kiln_cloud::VersionNumber> {
    let Some(own) = version_of(runs, &line.name) else { return Vec::new() };
    let earlier = versions.iter().find(|version| version.number == *own);
    let earlier = earlier.map(|version| Provenance::read(&version.tags).ancestors).unwrap_or_default();
    std::iter::once(own.clone()).chain(earlier).collect()
}

impl<F: Factory> Carrier<'_, F> {
    /// What is inside the donor: as it was read at the beginning, or read now.
    pub(crate) async fn inspected(&mut self) -> Result<Inspection, StepFailure> {
        if let Some(inspection) = &self.inspection {
            return Ok(inspection.clone());
        }
        let gone = || StepFailure {
            class: kiln_cloud::ErrorClass::NotFound,
            message: format!("node {} is gone, so its inside cannot be read", self.node),
        };
        let node = self.node_seen(&self.node).await?.ok_or_else(gone)?;
        self.tell(Happening::Inspecting(self.node.clone())).await;
        let inspection = self.context.inside.inspect(&node, &self.owner).await.map_err(|error| of_cluster(&error))?;
        self.inspection = Some(inspection.clone());
        Ok(inspection)
    }

    /// What speaks against the run, read anew: its first process died before it could say that nothing does.
    pub(crate) async fn refusals(&mut self) -> Result<Vec<String>, StepFailure> {
        let gone = || vec![format!("donor {} is gone", self.node)];
        let Some(node) = self.node_seen(&self.node).await? else { return Ok(gone()) };
        let header = &self.run.header;
        let place = Place { pool: header.pool.clone(), instance: header.donor.instance.clone() };
        match Gathered::read(self.context, &node, &place, &self.run.id).await {
            Ok(gathered) => {
                let refusals = gathered.refusals();
                self.inspection = Some(gathered.inspection);
                Ok(refusals)
            }
            Err(Error::Cluster(error)) => Err(of_cluster(&error)),
            Err(Error::Cloud { class, what, source }) => {
                Err(StepFailure { class, message: format!("{what}: {source}") })
            }
            Err(error) => Ok(vec![error.to_string()]),
        }
    }
}
