//! A file by itself: what it is, and everything that is wrong with it.

use std::fmt;

use kiln_aks_formats::anc::{self, GpuDrivers};
use kiln_aks_formats::karpenter::{AksNodeClass, NodeClaim, NodePool};
use kiln_aks_formats::nbv::{InputError, Inputs, ValueError};
use kiln_node_config::{NodeConfig, ParseError};
use serde::Serialize;
use serde_json::Value;

use crate::document::{BadDocument, Document, at};
use crate::drift::Record;
use crate::kind::Place;
use crate::layer::{AssignmentError, Layer};
use crate::resolve::resolve;
use crate::sources::{self, SourceError};

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sort {
    /// Global settings, plain or Karpenter's `ConfigMap`.
    Settings,
    /// Karpenter's pool.
    NodePool,
    /// Karpenter's class.
    NodeClass,
    /// Karpenter's claim.
    NodeClaim,
    /// Inputs that were resolved elsewhere.
    Values,
    /// The configuration of AKS's node controller.
    AksNodeConfig,
    /// kiln's own document.
    NodeConfig,
    /// What a node was made of.
    Record,
    /// An image's list of components.
    Components,
    /// Environment names with texts.
    Environment,
}

impl Sort {
    /// The word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Settings => "settings",
            Self::NodePool => "node-pool",
            Self::NodeClass => "node-class",
            Self::NodeClaim => "node-claim",
            Self::Values => "values",
            Self::AksNodeConfig => "aks-node-config",
            Self::NodeConfig => "node-config",
            Self::Record => "record",
            Self::Components => "components",
            Self::Environment => "env",
        }
    }

    /// What a value looks like; settings are what nothing else is.
    pub fn of(value: &Value) -> Self {
        match value.get("kind").and_then(Value::as_str) {
            Some("NodePool") => return Self::NodePool,
            Some("AKSNodeClass") => return Self::NodeClass,
            Some("NodeClaim") => return Self::NodeClaim,
            Some("NodeConfig") => return Self::NodeConfig,
            Some("ConfigMap") => return Self::Settings,
            _ => {}
        }
        let Some(fields) = value.as_object() else { return Self::Settings };
        let has = |name: &str| fields.contains_key(name);
        let shouts = |name: &String| name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_');
        if has("GPUContainerImages") || has("ContainerImages") {
            Self::Components
        } else if has("inputs") && has("variables") && has("hash") {
            Self::Record
        } else if has("tenant_id") || has("bootstrap_token") || has("api_server_name") {
            Self::Values
        } else if fields.keys().any(|name| name.ends_with("_config") || name.ends_with("Config"))
            || fields.get("version").and_then(Value::as_str).is_some_and(|version| version.starts_with('v'))
        {
            Self::AksNodeConfig
        } else if !fields.is_empty() && fields.keys().all(shouts) {
            Self::Environment
        } else {
            Self::Settings
        }
    }
}

/// Something about a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub file: String,
    /// The line, from 1.
    pub line: u64,
    /// The column, from 1.
    pub column: u64,
    /// The path inside.
    pub path: String,
    /// What is wrong, without a secret.
    pub reason: String,
    /// Whether it can be used all the same.
    pub harmless: bool,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, column, path, reason, harmless } = self;
        let word = if *harmless { "warning: " } else { "" };
        write!(f, "{file}:{line}:{column}: {word}{}{reason}", at(path))
    }
}

impl From<BadDocument> for Finding {
    fn from(bad: BadDocument) -> Self {
        let BadDocument { file, line, column, path, reason } = bad;
        Self { file, line, column, path, reason, harmless: false }
    }
}

/// A file that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Review {
    /// What it is.
    pub sort: Sort,
    /// What there is to say, errors first.
    pub findings: Vec<Finding>,
}

impl Review {
    /// Whether it can be used.
    pub fn is_well(&self) -> bool {
        self.findings.iter().all(|finding| finding.harmless)
    }
}

/// Looks at a file; as what it looks like, unless somebody says what it is.
pub fn review(file: &str, text: &str, sort: Option<Sort>) -> Review {
    let document = match Document::read(file, text) {
        Ok(document) => document,
        Err(bad) => return Review { sort: sort.unwrap_or(Sort::Settings), findings: vec![bad.into()] },
    };
    let sort = sort.unwrap_or_else(|| Sort::of(document.value()));
    let mut findings = match sort {
        Sort::Settings => layers(&document, sources::settings(&document).map(|layer| vec![layer])),
        Sort::NodePool => {
            let mut found = layers(&document, sources::node_pool(&document).map(|layer| vec![layer]));
            found.extend(unknown::<NodePool>(&document));
            found
        }
        Sort::NodeClaim => {
            let mut found = layers(&document, sources::node_claim(&document).map(|layer| vec![layer]));
            found.extend(unknown::<NodeClaim>(&document));
            found
        }
        Sort::NodeClass => {
            let mut found = layers(&document, sources::node_class(&document, "amd64"));
            found.extend(unknown::<AksNodeClass>(&document));
            found
        }
        Sort::Values => values(&document),
        Sort::AksNodeConfig => aks_node_config(&document, text),
        Sort::NodeConfig => node_config(&document),
        Sort::Record => document.parse::<Record>().err().map(Finding::from).into_iter().collect(),
        Sort::Components => GpuDrivers::from_components(document.value().to_string().as_bytes())
            .err()
            .map(|error| document.wrong("GPUContainerImages", error.to_string()).into())
            .into_iter()
            .collect(),
        Sort::Environment => environment(&document),
    };
    findings.sort_by_key(|finding: &Finding| (finding.harmless, finding.line, finding.column));
    Review { sort, findings }
}

fn at_place(document: &Document, place: &Place, reason: String) -> Finding {
    let path = match place {
        Place::File { path, .. } | Place::Object { path, .. } => path.as_str(),
        _ => "",
    };
    document.wrong(path, reason).into()
}

/// Mistakes of a source, and values in it that cannot be.
fn layers(document: &Document, said: Result<Vec<Layer>, SourceError>) -> Vec<Finding> {
    let layers = match said {
        Ok(layers) => layers,
        Err(error) => return error.each().into_iter().filter_map(|error| mistake(document, error)).collect(),
    };
    let problems = resolve(&layers).check().err().map_or_else(Vec::new, |problems| problems.0);
    let own = problems.into_iter().filter(|problem| matches!(problem.place, Place::File { .. } | Place::Object { .. }));
    own.map(|problem| at_place(document, &problem.place, format!("`{}`: {}", problem.field, problem.reason))).collect()
}

fn mistake(document: &Document, error: &SourceError) -> Option<Finding> {
    match error {
        SourceError::Document(bad) => Some(bad.clone().into()),
        SourceError::Assignment(assignment) => Some(at_place(document, assignment.place(), assignment.reason())),
        SourceError::Argument { .. } | SourceError::Several(_) => None,
    }
}

/// Fields of the spec that nothing reads: a spelling mistake, most often. What is written back is what was understood.
fn unknown<T: serde::de::DeserializeOwned + Serialize>(document: &Document) -> Vec<Finding> {
    /// Fields of Karpenter's that say nothing about a node's own configuration.
    const OTHERS: [&str; 5] = [
        "spec.disruption",
        "spec.limits",
        "spec.replicas",
        "spec.template.spec.terminationGracePeriod",
        "spec.resources",
    ];
    let Ok(understood) = document.parse::<T>() else { return Vec::new() };
    let understood = serde_json::to_value(understood).unwrap_or_default();
    let mut paths = Vec::new();
    lost("spec", document.value().get("spec"), understood.get("spec"), &mut paths);
    let own = paths.into_iter().filter(|path| !OTHERS.contains(&path.as_str()));
    own.map(|path| Finding { harmless: true, ..document.wrong(&path, "nothing reads this field").into() }).collect()
}

fn lost(path: &str, given: Option<&Value>, understood: Option<&Value>, paths: &mut Vec<String>) {
    match (given, understood) {
        (Some(Value::Object(given)), Some(Value::Object(understood))) => {
            for (name, value) in given {
                lost(&format!("{path}.{name}"), Some(value), understood.get(name), paths);
            }
        }
        (Some(Value::Array(given)), Some(Value::Array(understood))) => {
            for (index, value) in given.iter().enumerate() {
                lost(&format!("{path}[{index}]"), Some(value), understood.get(index), paths);
            }
        }
        (Some(given), None) if !is_empty(given) => paths.push(path.to_owned()),
        _ => {}
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

fn values(document: &Document) -> Vec<Finding> {
    let inputs: Inputs = match document.parse() {
        Ok(inputs) => inputs,
        Err(bad) => return vec![bad.into()],
    };
    let Err(error) = inputs.variables() else { return Vec::new() };
    let path = match &error {
        InputError::Subnet(_) => "subnet_id".to_owned(),
        InputError::SpaceInFlag { flag } => format!("kubelet_config_flags.{flag}"),
        InputError::Computed(field)
        | InputError::Value(
            ValueError::NotBool { field }
            | ValueError::NotInt { field }
            | ValueError::IsList { field }
            | ValueError::Nul { field },
        ) => format!("overrides.{field}"),
        InputError::UnknownField(unknown) => format!("overrides.{}", unknown.0),
    };
    vec![document.wrong(&path, error.to_string()).into()]
}

fn aks_node_config(document: &Document, text: &str) -> Vec<Finding> {
    let parsed = anc::parse(text.as_bytes());
    if let Some(problem) = parsed.problem {
        let mut bad = document.wrong(&problem.path, problem.reason);
        // A line that ends too soon is reported at its end, which is column 0 of the next.
        (bad.line, bad.column) = (problem.line.max(1) as u64, problem.column.max(1) as u64);
        return vec![bad.into()];
    }
    let version = parsed.config.check_version().err();
    let mut findings: Vec<Finding> =
        version.map(|error| document.wrong("version", error.to_string()).into()).into_iter().collect();
    findings.extend(parsed.config.missing().into_iter().filter(|path| *path != "version").map(|path| Finding {
        harmless: true,
        ..document.wrong(path, "a node needs this and it is not there").into()
    }));
    findings.extend(parsed.ignored.iter().map(|path| Finding {
        harmless: true,
        ..document.wrong(path, "a node of this version does not know it").into()
    }));
    findings
}

fn node_config(document: &Document) -> Vec<Finding> {
    let wrong = |path: &str, reason: String| {
        // Names in brackets are fields of a map here.
        let mut bad = document.wrong(&path.replace('[', ".").replace(']', ""), reason.clone());
        if (bad.line, bad.column) == document.position("") {
            bad = document.wrong(path, reason);
        }
        Finding { path: path.to_owned(), ..bad.into() }
    };
    match NodeConfig::parse(document.value().to_string().as_bytes()) {
        Ok(config) => config
            .unknown_fields()
            .iter()
            .map(|path| Finding { harmless: true, ..wrong(path, "no node of this version reads it".to_owned()) })
            .collect(),
        Err(ParseError::Form { path, reason, .. }) => vec![wrong(&path, reason)],
        Err(ParseError::Unsupported(error)) => vec![wrong("apiVersion", error.to_string())],
        Err(ParseError::Invalid(invalid)) => {
            invalid.0.into_iter().map(|violation| wrong(&violation.path, violation.reason)).collect()
        }
    }
}

fn environment(document: &Document) -> Vec<Finding> {
    let entries = document.value().as_object().into_iter().flatten();
    let bad = entries.filter(|(_, value)| !value.is_string());
    bad.map(|(name, _)| document.wrong(name, "an environment holds texts").into()).collect()
}

impl AssignmentError {
    /// Where it stands.
    pub fn place(&self) -> &Place {
        match self {
            Self::Unknown { place, .. } | Self::Kind { place, .. } | Self::Form { place, .. } => place,
        }
    }

    /// What is wrong, without the place.
    pub fn reason(&self) -> String {
        let text = self.to_string();
        let place = crate::kind::Pointed(self.place()).to_string();
        text.strip_prefix(&place).and_then(|rest| rest.strip_prefix(": ")).unwrap_or(&text).to_owned()
    }
}
