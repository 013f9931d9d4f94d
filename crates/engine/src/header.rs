//! Settles what does not change while a run goes on.

use kiln_kubernetes::{NodeSeen, Owner};
use kiln_prototype::history::replicas;
use kiln_prototype::latest::version_of;
use kiln_prototype::names;
use kiln_prototype::provenance::{Provenance, ancestors_of, merge};
use kiln_prototype::preflight::{DefinitionChoice, DefinitionRequirements, choose_definition, new_definition};
use kiln_prototype::run::{Donor, Header, RunOptions, RunId, SCHEMA};
use kiln_types::{CanaryName, Factory, ImageDefinition};

use crate::context::Context;
use crate::error::Error;
use crate::gather::Gathered;
use crate::request::Wish;

/// The run as nodes and pods know it.
pub(crate) fn owner_of(run: &RunId) -> Owner {
    run.as_str().parse().expect("lower-case letters and digits are an owner")
}

impl Gathered {
    /// What is settled when the run opens. A donor that is not refused has everything that it takes.
    pub(crate) fn header<F: Factory>(
        &self,
        context: &Context<F>,
        node: &NodeSeen,
        wish: &Wish,
        run: &RunId,
    ) -> Result<Header, Error> {
        let unread = || Error::Unread { node: node.name.clone() };
        let Self { pool, .. } = self;
        let instance = self.instance.as_ref().ok_or_else(unread)?;
        let disk = self.disk.as_ref().ok_or_else(unread)?;
        let inside = self.inside.as_ref().map_err(|_| unread())?;
        let started = context.now();
        let line = self.line(context, DefinitionRequirements::of(disk, pool)).ok_or_else(unread)?;
        let ancestors = version_of(&instance.runs, &line.name).map(|own| ancestors_of(own, &self.versions));
        let provenance = Provenance::new(
            node.name.as_str(),
            started,
            inside,
            ancestors.unwrap_or_default(),
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
                // A unit on a disk that belongs to nobody would take a clone for a first boot, and leave everything of the donor's on it.
                has_first_boot: inside.first_boot_unit.as_ref().is_some_and(|unit| !unit.recorded_vm_id.is_empty()),
            },
            started,
            version: names::version_of_day(started),
            who: context.who.clone(),
            policy: RunOptions { replicas: replicas(grown, wish.replicas), ..wish.policy.clone() },
            gallery: names::new_gallery(&context.resource_group, &pool.location)?,
            line,
            snapshot: names::snapshot(&pool.name)?,
            canary: CanaryName::from_run(run.as_str())?,
            tags: merge(&wish.tags, &provenance.tags())?,
        })
    }

    fn line<F: Factory>(&self, context: &Context<F>, wanted: DefinitionRequirements) -> Option<ImageDefinition> {
        match choose_definition(&self.definition_name, &wanted, &self.lines, &self.pool.recipe.image) {
            DefinitionChoice::Use(line) => Some(line.clone()),
            DefinitionChoice::Create(name) => {
                let identity = names::definition_identity(&context.resource_group, &self.pool.name);
                Some(new_definition(&self.definition_name, name, wanted, &self.pool.location, identity))
            }
            DefinitionChoice::Taken(_) => None,
        }
    }
}
