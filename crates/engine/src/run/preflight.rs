//! Reading everything that could block a run, before anything changes.

use jiff::tz::Offset;
use kiln_kubernetes::{OriginalStore, VersionRecords};
use kiln_prototype::diff::VersionFacts;
use kiln_prototype::latest::same_definition;
use kiln_prototype::names;
use kiln_prototype::preflight::{
    BlockerKind, DefinitionChoice, DefinitionRequirements, OriginalState, PreflightInput, PreflightReport, check,
    choose_definition, definition_names, mismatches,
};
use kiln_prototype::run::{RunId, RunOptions};
use kiln_types::{
    CanaryBootstrap, DefinitionName, Factory, FactoryError, ImageDefinition, ImageVersion, Inspection, Instance,
    Linked, Lock, Node, NodeName, OsDisk, Pool,
};

use super::InstanceRef;
use super::header::owner_of;
use crate::context::Context;
use crate::error::Error;
use crate::event::RunEventKind;
use crate::query::{AccessRow, FORCE, Side, check_access_to};

/// Everything that was read for the preflight check, and its result.
pub(crate) struct PreflightFacts {
    pub(crate) pool: Pool,
    pub(crate) instance: Option<Instance>,
    pub(crate) disk: Option<OsDisk>,
    pub(crate) definition_name: DefinitionName,
    /// The existing definitions that the pool could use.
    pub(crate) definitions: Vec<ImageDefinition>,
    /// The versions of the definition that the run would use.
    pub(crate) versions: Vec<ImageVersion>,
    /// The inspection, or why there is none. A node with other blockers is not inspected.
    pub(crate) inspection: Result<Inspection, String>,
    pub(crate) report: PreflightReport,
    /// The secret parts of the recipe for a canary that joins by it, or why there are none.
    pub(crate) canary_secrets: Result<(), String>,
}

impl PreflightFacts {
    /// Reads and checks everything. Nothing changes, but a read-only pod runs on the node for a moment.
    pub(crate) async fn read<F: Factory>(
        context: &Context<F>,
        node: &Node,
        donor: &InstanceRef,
        options: &RunOptions,
        run: &RunId,
    ) -> Result<Self, Error> {
        let factory = context.factory.as_ref();
        let InstanceRef { pool, instance } = donor;
        let what = format!("read scale set `{pool}`");
        let (pool, linked) = factory.describe_linked(pool).await.map_err(Error::cloud(what))?;
        let what = format!("read instance {instance} of `{}`", pool.name);
        let instance = if_found(what, factory.describe_instance(&pool.name, instance).await)?;
        let disk = match &instance {
            Some(instance) => if_found(format!("read the disk of `{}`", node.name), factory.os_disk(instance).await)?,
            None => None,
        };
        let definition_name = names::definition(&context.resource_group, &pool.name)?;
        let (definitions, versions) = match &disk {
            Some(disk) => {
                let wanted = DefinitionRequirements::new(disk, &pool);
                read_definitions(context, &definition_name, &wanted, &pool).await?
            }
            None => (Vec::new(), Vec::new()),
        };
        let kamino_jobs = context.cluster.kamino_jobs().await?;
        let missing_permissions = missing_permissions(context, &linked, options.force).await?;
        let surroundings = Surroundings {
            kamino_jobs: kamino_jobs.iter().map(ToString::to_string).collect(),
            kured_locks: kured_locks(context, &missing_permissions).await?,
            missing_permissions,
            locks: locks(context, &pool).await?,
            unknown_regions: unknown_regions(context, options, &pool).await?,
            original_saved: original_saved(context, &pool, &definition_name).await?,
            contents: contents(context, &pool, &definitions).await?,
        };
        let inspection = Err("not inspected".to_owned());
        let report = PreflightReport::default();
        let canary_secrets = canary_secrets(context, options).await?.map(drop);
        let mut facts =
            Self { pool, instance, disk, definition_name, definitions, versions, inspection, report, canary_secrets };
        facts.report = facts.check(context, node, options, run, &surroundings);
        let needs_inspection = [BlockerKind::NotInspected, BlockerKind::Original];
        facts.report.blockers.retain(|blocker| !needs_inspection.contains(&blocker.kind));
        if facts.report.is_clear() {
            context.emit(&facts.pool.name, Some(run), RunEventKind::Inspecting(node.name.clone())).await;
            facts.inspection = match context.inspector.inspect(node, &owner_of(run)).await {
                Ok(inspection) => Ok(inspection),
                Err(error) if error.is_outage() => return Err(error.into()),
                Err(error) => Err(error.to_string()),
            };
            facts.report = facts.check(context, node, options, run, &surroundings);
        }
        Ok(facts)
    }

    fn check<F: Factory>(
        &self,
        context: &Context<F>,
        node: &Node,
        options: &RunOptions,
        run: &RunId,
        surroundings: &Surroundings,
    ) -> PreflightReport {
        let original = match &self.inspection {
            _ if surroundings.original_saved => OriginalState::Saved,
            Ok(inspection)
                if inspection.custom_data.bytes().is_some_and(|bytes| std::str::from_utf8(bytes.expose()).is_ok()) =>
            {
                OriginalState::CanBeSaved
            }
            Ok(inspection) if inspection.custom_data.bytes().is_some() => OriginalState::Lost(
                "the custom data on the donor's disk is not UTF-8, so it cannot be stored in a Secret".to_owned(),
            ),
            Ok(inspection) if inspection.custom_data.present() => {
                OriginalState::Lost("the custom data on the donor's disk could not be read".to_owned())
            }
            Ok(_) => OriginalState::Lost("the donor's disk contains no custom data".to_owned()),
            Err(reason) => OriginalState::Lost(reason.clone()),
        };
        check(PreflightInput {
            pool: &self.pool,
            instance: self.instance.as_ref(),
            disk: self.disk.as_ref(),
            node,
            inspection: self.inspection.as_ref().map_err(String::as_str),
            definition_name: &self.definition_name,
            definitions: &self.definitions,
            versions: &self.versions,
            contents: &surroundings.contents,
            original: &original,
            canary_secrets: self.canary_secrets.as_ref().copied().map_err(String::as_str),
            own_node: context.own_node.as_ref().map(NodeName::as_str),
            own_run: Some(run.as_str()),
            kamino_jobs: &surroundings.kamino_jobs,
            kured_locks: &surroundings.kured_locks,
            missing_permissions: &surroundings.missing_permissions,
            locks: surroundings.locks.as_deref().map_err(String::as_str),
            unknown_regions: &surroundings.unknown_regions,
            options,
            today: Offset::UTC.to_datetime(context.now()).date(),
        })
    }

    /// The blockers, as text.
    pub(crate) fn blockers(&self) -> Vec<String> {
        self.report.blockers.iter().map(ToString::to_string).collect()
    }

    /// The warnings, as text.
    pub(crate) fn warnings(&self) -> Vec<String> {
        self.report.warnings.iter().map(ToString::to_string).collect()
    }
}

/// The facts that are read once and do not depend on the donor.
struct Surroundings {
    kamino_jobs: Vec<String>,
    kured_locks: Vec<String>,
    missing_permissions: Vec<String>,
    /// The pool's locks, or why they could not be read.
    locks: Result<Vec<Lock>, String>,
    unknown_regions: Vec<String>,
    original_saved: bool,
    contents: Vec<VersionFacts>,
}

/// The existing definitions that the pool could use, and the versions of the first of them. The second name is looked up only if
/// the first definition does not match or the recipe names the second.
async fn read_definitions<F: Factory>(
    context: &Context<F>,
    base: &DefinitionName,
    wanted: &DefinitionRequirements,
    pool: &Pool,
) -> Result<(Vec<ImageDefinition>, Vec<ImageVersion>), Error> {
    use kiln_types::ImageSource::{Definition, ExactVersion};
    let factory = context.factory.as_ref();
    let find = async |name: &DefinitionName| {
        let what = format!("read image definition `{}`", name.definition);
        factory.find_definition(name).await.map_err(Error::cloud(what))
    };
    let [first, second] = definition_names(base, wanted);
    let mut definitions: Vec<ImageDefinition> = find(&first).await?.into_iter().collect();
    let first_matches = definitions.first().is_none_or(|one| mismatches(one, wanted).is_empty());
    let named =
        matches!(&pool.recipe.image, Definition(name) | ExactVersion(name, _) if same_definition(name, &second));
    if (!first_matches || named) && !same_definition(&first, &second) {
        definitions.extend(find(&second).await?);
    }
    let versions = match choose_definition(base, wanted, &definitions, &pool.recipe.image) {
        DefinitionChoice::Use(definition) => {
            let what = format!("read the versions of `{}`", definition.name.definition);
            factory.versions(&definition.name).await.map_err(Error::cloud(what))?
        }
        DefinitionChoice::Create(_) | DefinitionChoice::Taken(_) => Vec::new(),
    };
    Ok((definitions, versions))
}

/// The permissions that the run lacks. Where kiln may not read its permissions, the run's own requests will tell.
async fn missing_permissions<F: Factory>(
    context: &Context<F>,
    linked: &[Linked],
    force: bool,
) -> Result<Vec<String>, Error> {
    let report = check_access_to(context, linked).await?;
    let counts = |row: &&AccessRow| match row.side {
        Side::Azure => row.reason.is_empty(),
        // Listing kamino's jobs has just succeeded: it is allowed, or the server does not have this kind.
        Side::Kubernetes => row.action.rsplit_once('.').is_none_or(|(_, group)| group != "batch"),
    };
    let forced = |row: &&AccessRow| !row.allowed && force && row.only_for.as_deref() == Some(FORCE);
    let missing = report.missing().chain(report.rows.iter().filter(forced));
    Ok(missing.filter(counts).map(|row| row.action.clone()).collect())
}

/// kured's locks. Where they may not be read, the missing permission is a blocker of its own.
async fn kured_locks<F: Factory>(context: &Context<F>, missing: &[String]) -> Result<Vec<String>, Error> {
    match context.cluster.kured_locks().await {
        Err(error) if error.is_forbidden() && !missing.is_empty() => Ok(Vec::new()),
        locks => Ok(locks?.iter().map(ToString::to_string).collect()),
    }
}

/// The locks that apply to the pool. A role that may not read them is no reason to refuse the run.
async fn locks<F: Factory>(context: &Context<F>, pool: &Pool) -> Result<Result<Vec<Lock>, String>, Error> {
    match context.factory.locks(&pool.name).await {
        Ok(locks) => Ok(Ok(locks)),
        Err(error) if error.permission() => Ok(Err(error.to_string())),
        Err(error) => Err(Error::cloud(format!("read the locks of `{}`", pool.name))(error)),
    }
}

/// The regions of `--target-regions` that the cloud does not have. A role that may not list regions is no reason to refuse the run.
async fn unknown_regions<F: Factory>(
    context: &Context<F>,
    options: &RunOptions,
    pool: &Pool,
) -> Result<Vec<String>, Error> {
    if options.target_regions.is_empty() {
        return Ok(Vec::new());
    }
    let known = match context.factory.regions().await {
        Ok(known) => known,
        Err(error) if error.permission() => return Ok(Vec::new()),
        Err(error) => return Err(Error::cloud("list regions")(error)),
    };
    let is_known =
        |name: &&String| known.iter().chain([&pool.location]).any(|known| kiln_types::same_region(known, name));
    Ok(options.target_regions.keys().filter(|name| !is_known(name)).cloned().collect())
}

/// Whether the original recipe is saved, or there is none because the pool already uses its image definition.
async fn original_saved<F: Factory>(
    context: &Context<F>,
    pool: &Pool,
    definition: &DefinitionName,
) -> Result<bool, Error> {
    use kiln_types::ImageSource::{Definition, ExactVersion};
    let is_own = |named: &DefinitionName| {
        let prefix = named.definition.get(..definition.definition.len());
        named.gallery == definition.gallery
            && prefix.is_some_and(|prefix| prefix.eq_ignore_ascii_case(&definition.definition))
    };
    if matches!(&pool.recipe.image, Definition(named) | ExactVersion(named, _) if is_own(named)) {
        return Ok(true);
    }
    let store = OriginalStore::new(&context.cluster, &context.namespace, &pool.name);
    Ok(store.load().await?.is_some())
}

/// The secret parts of the pool's recipe, for a canary that joins by it, or why there are none.
pub(super) async fn canary_secrets<F: Factory>(
    context: &Context<F>,
    options: &RunOptions,
) -> Result<Result<CanaryBootstrap, String>, Error> {
    match &options.canary_secret {
        _ if context.factory.knows_secrets() => Ok(Ok(CanaryBootstrap::default())),
        Some(name) => Ok(context.cluster.canary_bootstrap(&context.namespace, name).await?),
        None => Ok(Err("Azure does not return the pool's custom data".to_owned())),
    }
}

/// The stored contents of the pool's versions.
async fn contents<F: Factory>(
    context: &Context<F>,
    pool: &Pool,
    definitions: &[ImageDefinition],
) -> Result<Vec<VersionFacts>, Error> {
    if definitions.is_empty() {
        return Ok(Vec::new());
    }
    let store = VersionRecords::new(&context.cluster, &context.namespace, &pool.name);
    Ok(store.list().await?.into_iter().map(|(_, facts)| facts).collect())
}

fn if_found<T, E: FactoryError>(what: String, read: Result<T, E>) -> Result<Option<T>, Error> {
    match read {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.not_found() => Ok(None),
        Err(error) => Err(Error::cloud(what)(error)),
    }
}
