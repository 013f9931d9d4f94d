//! The header of a new run.

use kiln_kubernetes::Owner;
use kiln_prototype::history::replicas;
use kiln_prototype::join::choose_join;
use kiln_prototype::latest::version_of;
use kiln_prototype::names;
use kiln_prototype::observed::Observed;
use kiln_prototype::preflight::{DefinitionChoice, DefinitionRequirements, choose_definition, new_definition};
use kiln_prototype::provenance::{Provenance, ancestors_of, merge_tags, users_tags};
use kiln_prototype::run::{Donor, Header, RunId, RunOptions, Schema};
use kiln_types::{CanaryName, Factory, Gallery, ImageDefinition, ImageVersion, Node, Tags, VersionState};

use super::PreflightFacts;
use crate::context::Context;
use crate::error::Error;

/// The run's id, as it appears on nodes and pods.
pub(crate) fn owner_of(run: &RunId) -> Owner {
    run.as_str().parse().expect("lower-case letters and digits are an owner")
}

impl PreflightFacts {
    /// The header of a run that has no blockers.
    pub(crate) fn header<F: Factory>(
        &self,
        context: &Context<F>,
        node: &Node,
        options: &RunOptions,
        run: &RunId,
    ) -> Result<Header, Error> {
        let unread = || Error::DonorUnreadable { node: node.name.clone() };
        let Self { pool, .. } = self;
        let instance = self.instance.as_ref().ok_or_else(unread)?;
        let disk = self.disk.as_ref().ok_or_else(unread)?;
        let inspection = self.inspection.as_ref().map_err(|_| unread())?;
        let started = context.now();
        let definition =
            self.definition(context, DefinitionRequirements::new(disk, pool), &options.tags).ok_or_else(unread)?;
        let ancestors = version_of(&instance.runs, &definition.name).map(|own| ancestors_of(own, &self.versions));
        let provenance = Provenance::new(
            node.name.as_str(),
            started,
            inspection,
            ancestors.unwrap_or_default(),
            run.as_str(),
            &context.who,
        );
        let grown = pool.capacity.saturating_add(options.new_nodes);
        Ok(Header {
            schema: Schema,
            pool: pool.name.clone(),
            donor: Donor {
                node: node.name.clone(),
                instance: instance.id.clone(),
                vm_id: instance.vm_id.clone(),
                os_disk: disk.id.clone(),
                encryption_set: disk.encryption_set.clone(),
                // Without a recorded VM id the unit cannot recognise a clone and would keep the donor's identity on it.
                has_first_boot: inspection.first_boot_unit.as_ref().is_some_and(|unit| !unit.recorded_vm_id.is_empty()),
            },
            started,
            version: names::version_of_day(started),
            who: context.who.clone(),
            options: options.clone(),
            join: choose_join(options.join, inspection, pool).map_err(|_| unread())?,
            replicas: replicas(grown, options.replicas),
            gallery: Gallery {
                tags: users_tags(&options.tags),
                ..names::new_gallery(&context.resource_group, &pool.location)?
            },
            gallery_scope: context.factory.gallery_scope(),
            definition,
            snapshot: names::snapshot(&pool.name)?,
            canary: CanaryName::from_run(run.as_str())?,
            keeps_custom_data: inspection.node_config_in_custom_data,
            tags: merge_tags(&options.tags, &provenance.tags())?,
        })
    }

    /// What the run need not read again. Another run that worked on the pool meanwhile has changed its revision, so the run's first write
    /// fails and everything is read again. The versions are kept only if there is nothing to do about them.
    pub(super) fn observed(&self, header: &Header, blockers: Vec<String>) -> Observed {
        let definition = self.definitions.iter().find(|definition| definition.name == header.definition.name);
        let is_settled =
            |version: &ImageVersion| version.state == VersionState::Succeeded && version.number != header.version;
        let versions = (definition.is_some() && self.versions.iter().all(is_settled)).then(|| self.versions.clone());
        Observed {
            blockers: Some(blockers),
            pool: Some(self.pool.clone()),
            instance: Some(self.instance.clone()),
            definition: definition.cloned().map(Some),
            versions,
            ..Observed::default()
        }
    }

    fn definition<F: Factory>(
        &self,
        context: &Context<F>,
        wanted: DefinitionRequirements,
        tags: &Tags,
    ) -> Option<ImageDefinition> {
        match choose_definition(&self.definition_name, &wanted, &self.definitions, &self.pool.recipe.image) {
            DefinitionChoice::Use(definition) => Some(definition.clone()),
            DefinitionChoice::Create(name) => {
                let identity = names::definition_identity(&context.resource_group, &self.pool.name);
                let new = new_definition(&self.definition_name, name, wanted, &self.pool.location, identity);
                Some(ImageDefinition { tags: users_tags(tags), ..new })
            }
            DefinitionChoice::Taken(_) => None,
        }
    }
}
