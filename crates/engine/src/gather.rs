//! Reads everything that speaks for or against a run, before anything is touched.

use jiff::tz::Offset;
use kiln_kubernetes::{FactsStore, NodeSeen, OriginalStore};
use kiln_types::Inspection;
use kiln_prototype::diff::VersionFacts;
use kiln_prototype::latest::same_definition;
use kiln_prototype::names;
use kiln_prototype::preflight::{
    DefinitionChoice, Original, Preflight, Row, Verdict, DefinitionRequirements, check, choose_definition, definition_names, mismatches,
};
use kiln_prototype::run::RunId;
use kiln_types::{DefinitionName, Factory, FactoryError, ImageDefinition, ImageVersion, Instance, OsDisk, Pool};

use crate::access::{AccessRow, Side, check_access};
use crate::context::Context;
use crate::error::Error;
use crate::header::owner_of;
use crate::news::RunEventKind;
use crate::node_facts::facts_of;
use crate::place::Place;
use crate::side::Error;

/// What a person agreed to, as far as it decides whether a run may begin.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Consent {
    pub(crate) force: bool,
    pub(crate) allow_empty_pool: bool,
    pub(crate) no_original: bool,
}

/// Everything that speaks for or against a run.
pub(crate) struct Gathered {
    pub(crate) pool: Pool,
    pub(crate) instance: Option<Instance>,
    pub(crate) disk: Option<OsDisk>,
    /// Where the pool's line is by its name.
    pub(crate) definition_name: DefinitionName,
    /// The lines that exist where one can be.
    pub(crate) lines: Vec<ImageDefinition>,
    /// The versions of the line that would be used.
    pub(crate) versions: Vec<ImageVersion>,
    /// What is inside, or why that is not known. Nobody looks into a node that is refused anyway.
    pub(crate) inside: Result<Inspection, String>,
    pub(crate) verdict: Verdict,
}

impl Gathered {
    /// Reads it. Nothing is changed, but a pod that reads runs on the node for a moment.
    pub(crate) async fn read<F: Factory>(
        context: &Context<F>,
        node: &NodeSeen,
        place: &Place,
        consent: Consent,
        run: &RunId,
    ) -> Result<Self, Error> {
        let factory = context.factory.as_ref();
        let Place { pool, instance } = place;
        let pool = factory.describe_pool(pool).await.map_err(Error::cloud(format!("read scale set {pool}")))?;
        let what = format!("read instance {instance} of {}", pool.name);
        let instance = if_there(what, factory.describe_instance(&pool.name, instance).await)?;
        let disk = match &instance {
            Some(instance) => if_there(format!("read the disk of {}", node.name), factory.os_disk(instance).await)?,
            None => None,
        };
        let definition_name = names::line(&context.resource_group, &pool.name)?;
        let (lines, versions) = match &disk {
            Some(disk) => read_lines(context, &definition_name, &DefinitionRequirements::of(disk, &pool), &pool).await?,
            None => (Vec::new(), Vec::new()),
        };
        let rivals = context.cluster.rivals().await?;
        let around = Around {
            rivals: rivals.iter().map(ToString::to_string).collect(),
            missing: missing(context, &pool).await?,
            original_saved: original_saved(context, &pool, &definition_name).await?,
            contents: contents(context, &pool, &lines).await?,
        };
        let inside = Err("nobody looked".to_owned());
        let verdict = Verdict::default();
        let mut gathered = Self { pool, instance, disk, definition_name, lines, versions, inside, verdict };
        gathered.verdict = gathered.judge(context, node, consent, run, &around);
        gathered.verdict.refusals.retain(|refusal| !matches!(refusal.row, Row::NotInspected | Row::Original));
        if gathered.verdict.allows() {
            context.tell(&gathered.pool.name, Some(run), RunEventKind::Inspecting(node.name.clone())).await;
            gathered.inside = match context.inside.inspect(node, &owner_of(run)).await {
                Ok(inspection) => Ok(inspection),
                Err(error) if error.outage() => return Err(error.into()),
                Err(error) => Err(error.to_string()),
            };
            gathered.verdict = gathered.judge(context, node, consent, run, &around);
        }
        Ok(gathered)
    }

    fn judge<F: Factory>(
        &self,
        context: &Context<F>,
        node: &NodeSeen,
        consent: Consent,
        run: &RunId,
        around: &Around,
    ) -> Verdict {
        let original = match &self.inside {
            _ if around.original_saved => Original::Saved,
            _ if consent.no_original => Original::CanBeSaved,
            Ok(inside)
                if inside.custom_data.bytes().is_some_and(|bytes| std::str::from_utf8(bytes.expose()).is_ok()) =>
            {
                Original::CanBeSaved
            }
            Ok(inside) if inside.custom_data.bytes().is_some() => Original::Lost(
                "the custom data on the donor's disk is no text, so it cannot be kept in a Secret".to_owned(),
            ),
            Ok(inside) if inside.custom_data.present() => {
                Original::Lost("the custom data on the donor's disk could not be read".to_owned())
            }
            Ok(_) => Original::Lost("the donor's disk has no custom data any more".to_owned()),
            Err(why) => Original::Lost(why.clone()),
        };
        check(Preflight {
            pool: &self.pool,
            instance: self.instance.as_ref(),
            disk: self.disk.as_ref(),
            node: &facts_of(node),
            inside: self.inside.as_ref().map_err(String::as_str),
            definition_name: &self.definition_name,
            lines: &self.lines,
            versions: &self.versions,
            contents: &around.contents,
            original: &original,
            own_node: context.own_node.as_ref().map(kiln_kubernetes::NodeName::as_str),
            own_run: Some(run.as_str()),
            kamino: &around.rivals,
            missing: &around.missing,
            force: consent.force,
            allow_empty_pool: consent.allow_empty_pool,
            today: Offset::UTC.to_datetime(context.now()).date(),
        })
    }

    /// What speaks against the run.
    pub(crate) fn refusals(&self) -> Vec<String> {
        self.verdict.refusals.iter().map(ToString::to_string).collect()
    }

    /// What does not, and should be known.
    pub(crate) fn warnings(&self) -> Vec<String> {
        self.verdict.warnings.iter().map(ToString::to_string).collect()
    }
}

/// What is not of the donor.
struct Around {
    rivals: Vec<String>,
    missing: Vec<String>,
    original_saved: bool,
    contents: Vec<VersionFacts>,
}

/// The lines that exist where a fitting one can be, and the versions of the one that would be used. The second place is looked at only where
/// the first does not serve.
async fn read_lines<F: Factory>(
    context: &Context<F>,
    base: &DefinitionName,
    wanted: &DefinitionRequirements,
    pool: &Pool,
) -> Result<(Vec<ImageDefinition>, Vec<ImageVersion>), Error> {
    use kiln_types::ImageSource::{Definition, ExactVersion};
    let factory = context.factory.as_ref();
    let find = async |name: &DefinitionName| {
        let what = format!("read image definition {}", name.definition);
        factory.find_definition(name).await.map_err(Error::cloud(what))
    };
    let [first, second] = definition_names(base, wanted);
    let mut lines: Vec<ImageDefinition> = find(&first).await?.into_iter().collect();
    let serves = lines.first().is_none_or(|line| mismatches(line, wanted).is_empty());
    let named =
        matches!(&pool.recipe.image, Definition(line) | ExactVersion(line, _) if same_definition(line, &second));
    if (!serves || named) && !same_definition(&first, &second) {
        lines.extend(find(&second).await?);
    }
    let versions = match choose_definition(base, wanted, &lines, &pool.recipe.image) {
        DefinitionChoice::Use(line) => {
            let what = format!("read the versions of {}", line.name.definition);
            factory.versions(&line.name).await.map_err(Error::cloud(what))?
        }
        DefinitionChoice::Create(_) | DefinitionChoice::Taken(_) => Vec::new(),
    };
    Ok((lines, versions))
}

/// What a run would not be allowed to do. Who may not even ask learns it from the act itself.
async fn missing<F: Factory>(context: &Context<F>, pool: &Pool) -> Result<Vec<String>, Error> {
    let report = match check_access(context, std::slice::from_ref(&pool.name)).await {
        Ok(report) => report,
        Err(Error::Operate(error)) => return Err(error),
        Err(_) => return Ok(Vec::new()),
    };
    let counts = |row: &&AccessRow| match row.side {
        Side::Azure => row.reason.is_empty(),
        // Rivals were looked for a moment ago: it is allowed, or the server has no such kind.
        Side::Kubernetes => row.action.rsplit_once('.').is_none_or(|(_, group)| group != "batch"),
    };
    Ok(report.missing().filter(counts).map(|row| row.action.clone()).collect())
}

/// Whether the recipe before the first run is kept, or there is none to keep: the pool is made from its line already.
async fn original_saved<F: Factory>(context: &Context<F>, pool: &Pool, line: &DefinitionName) -> Result<bool, Error> {
    use kiln_types::ImageSource::{Definition, ExactVersion};
    let of_ours = |named: &DefinitionName| {
        let ours = named.definition.get(..line.definition.len());
        named.gallery == line.gallery && ours.is_some_and(|ours| ours.eq_ignore_ascii_case(&line.definition))
    };
    if matches!(&pool.recipe.image, Definition(named) | ExactVersion(named, _) if of_ours(named)) {
        return Ok(true);
    }
    let store = OriginalStore::new(&context.cluster, &context.namespace, &pool.name);
    Ok(store.load().await?.is_some())
}

/// What is in the versions so far. A pool without a line has none.
async fn contents<F: Factory>(
    context: &Context<F>,
    pool: &Pool,
    lines: &[ImageDefinition],
) -> Result<Vec<VersionFacts>, Error> {
    if lines.is_empty() {
        return Ok(Vec::new());
    }
    let store = FactsStore::new(&context.cluster, &context.namespace, &pool.name);
    Ok(store.list().await?.into_iter().map(|(_, facts)| facts).collect())
}

fn if_there<T, E: FactoryError>(what: String, read: Result<T, E>) -> Result<Option<T>, Error> {
    match read {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.not_found() => Ok(None),
        Err(error) => Err(Error::cloud(what)(error)),
    }
}
