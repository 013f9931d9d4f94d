//! Review of a single file: detects its kind and reports all findings.

use std::fmt;

use kiln_aks_formats::anc::{self, GpuDrivers};
use kiln_aks_formats::karpenter::{AksNodeClass, NodeClaim, NodePool};
use kiln_aks_formats::nbv::{InputError, Inputs, ValueError};
use kiln_node_config::{NodeConfig, ParseError};
use serde::Serialize;
use serde_json::Value;

use crate::document::{BadDocument, Document, at};
use crate::drift::Record;
use crate::provenance::SourcePosition;
use crate::resolve::resolve;
use crate::source::{AssignmentError, Source};
use crate::sources::{self, SourceError};

/// Kind of a reviewed file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FileKind {
    /// Global settings: a plain file, or Karpenter's `ConfigMap`.
    Settings,
    NodePool,
    NodeClass,
    NodeClaim,
    /// Inputs that were resolved elsewhere.
    Values,
    AksNodeConfig,
    NodeConfig,
    /// The values a node was created from.
    Record,
    /// `components.json` of a node image.
    Components,
    /// Environment variables as JSON.
    Environment,
}

impl FileKind {
    /// Returns the name of the kind.
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

    /// Detects the kind of a document. A document that matches no other kind is settings.
    pub fn detect(value: &Value) -> Self {
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
        let is_upper_case =
            |name: &String| name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_');
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
        } else if !fields.is_empty() && fields.keys().all(is_upper_case) {
            Self::Environment
        } else {
            Self::Settings
        }
    }
}

/// An error or warning about a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub file: String,
    /// Starts at 1.
    pub line: u64,
    /// Starts at 1.
    pub column: u64,
    pub path: String,
    /// Never contains a secret.
    pub reason: String,
    /// Whether the file can still be used.
    pub warning: bool,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, column, path, reason, warning } = self;
        let level = if *warning { "warning: " } else { "" };
        write!(f, "{file}:{line}:{column}: {level}{}{reason}", at(path))
    }
}

impl From<BadDocument> for Finding {
    fn from(bad: BadDocument) -> Self {
        let BadDocument { file, line, column, path, reason } = bad;
        Self { file, line, column, path, reason, warning: false }
    }
}

/// Result of reviewing a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Review {
    pub kind: FileKind,
    /// Errors first, then warnings.
    pub findings: Vec<Finding>,
}

impl Review {
    /// Whether the file has no errors.
    pub fn is_valid(&self) -> bool {
        self.findings.iter().all(|finding| finding.warning)
    }
}

/// Reviews a file as the given kind, or as the kind that it looks like.
pub fn review(file: &str, text: &str, kind: Option<FileKind>) -> Review {
    let document = match Document::read(file, text) {
        Ok(document) => document,
        Err(bad) => return Review { kind: kind.unwrap_or(FileKind::Settings), findings: vec![bad.into()] },
    };
    let kind = kind.unwrap_or_else(|| FileKind::detect(document.value()));
    let mut findings = match kind {
        FileKind::Settings => source_findings(&document, sources::settings(&document).map(|source| vec![source])),
        FileKind::NodePool => {
            let mut findings = source_findings(&document, sources::node_pool(&document).map(|source| vec![source]));
            findings.extend(unknown_fields::<NodePool>(&document));
            findings
        }
        FileKind::NodeClaim => {
            let mut findings = source_findings(&document, sources::node_claim(&document).map(|source| vec![source]));
            findings.extend(unknown_fields::<NodeClaim>(&document));
            findings
        }
        FileKind::NodeClass => {
            let mut findings = source_findings(&document, sources::node_class(&document, "amd64"));
            findings.extend(unknown_fields::<AksNodeClass>(&document));
            findings
        }
        FileKind::Values => values(&document),
        FileKind::AksNodeConfig => aks_node_config(&document, text),
        FileKind::NodeConfig => node_config(&document),
        FileKind::Record => document.parse::<Record>().err().map(Finding::from).into_iter().collect(),
        FileKind::Components => GpuDrivers::from_components(document.value().to_string().as_bytes())
            .err()
            .map(|error| document.error_at("GPUContainerImages", error.to_string()).into())
            .into_iter()
            .collect(),
        FileKind::Environment => environment(&document),
    };
    findings.sort_by_key(|finding: &Finding| (finding.warning, finding.line, finding.column));
    Review { kind, findings }
}

fn finding_at(document: &Document, position: &SourcePosition, reason: String) -> Finding {
    let path = match position {
        SourcePosition::File { path, .. } | SourcePosition::Object { path, .. } => path.as_str(),
        _ => "",
    };
    document.error_at(path, reason).into()
}

/// Returns the errors of a source and its invalid values.
fn source_findings(document: &Document, result: Result<Vec<Source>, SourceError>) -> Vec<Finding> {
    let sources = match result {
        Ok(sources) => sources,
        Err(error) => return error.each().into_iter().filter_map(|error| error_finding(document, error)).collect(),
    };
    let problems = resolve(&sources).check().err().map_or_else(Vec::new, |problems| problems.0);
    let own = problems
        .into_iter()
        .filter(|problem| matches!(problem.position, SourcePosition::File { .. } | SourcePosition::Object { .. }));
    own.map(|problem| finding_at(document, &problem.position, format!("`{}`: {}", problem.field, problem.reason)))
        .collect()
}

fn error_finding(document: &Document, error: &SourceError) -> Option<Finding> {
    match error {
        SourceError::Document(bad) => Some(bad.clone().into()),
        SourceError::Assignment(assignment) => Some(finding_at(document, assignment.position(), assignment.reason())),
        SourceError::Argument { .. } | SourceError::Several(_) => None,
    }
}

/// Returns warnings for fields of the spec that are not read, usually misspelled ones. A field is read if it survives a round trip
/// through the type.
fn unknown_fields<T: serde::de::DeserializeOwned + Serialize>(document: &Document) -> Vec<Finding> {
    /// Karpenter fields that do not affect the configuration of a node.
    const IGNORED: [&str; 5] = [
        "spec.disruption",
        "spec.limits",
        "spec.replicas",
        "spec.template.spec.terminationGracePeriod",
        "spec.resources",
    ];
    let Ok(parsed) = document.parse::<T>() else { return Vec::new() };
    let parsed = serde_json::to_value(parsed).unwrap_or_default();
    let mut paths = Vec::new();
    collect_lost("spec", document.value().get("spec"), parsed.get("spec"), &mut paths);
    let unknown = paths.into_iter().filter(|path| !IGNORED.contains(&path.as_str()));
    unknown.map(|path| Finding { warning: true, ..document.error_at(&path, "unknown field").into() }).collect()
}

fn collect_lost(path: &str, given: Option<&Value>, parsed: Option<&Value>, paths: &mut Vec<String>) {
    match (given, parsed) {
        (Some(Value::Object(given)), Some(Value::Object(parsed))) => {
            for (name, value) in given {
                collect_lost(&format!("{path}.{name}"), Some(value), parsed.get(name), paths);
            }
        }
        (Some(Value::Array(given)), Some(Value::Array(parsed))) => {
            for (index, value) in given.iter().enumerate() {
                collect_lost(&format!("{path}[{index}]"), Some(value), parsed.get(index), paths);
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
    vec![document.error_at(&path, error.to_string()).into()]
}

fn aks_node_config(document: &Document, text: &str) -> Vec<Finding> {
    let parsed = anc::parse(text.as_bytes());
    if let Some(error) = parsed.error {
        let mut bad = document.error_at(&error.path, error.reason);
        // serde_json reports an unexpected end of line as column 0 of the next line.
        (bad.line, bad.column) = (error.line.max(1) as u64, error.column.max(1) as u64);
        return vec![bad.into()];
    }
    let version = parsed.config.check_version().err();
    let mut findings: Vec<Finding> =
        version.map(|error| document.error_at("version", error.to_string()).into()).into_iter().collect();
    findings.extend(
        parsed
            .config
            .missing()
            .into_iter()
            .filter(|path| *path != "version")
            .map(|path| Finding { warning: true, ..document.error_at(path, "required field is not set").into() }),
    );
    findings.extend(
        parsed
            .ignored
            .iter()
            .map(|path| Finding { warning: true, ..document.error_at(path, "unknown field; AKS ignores it").into() }),
    );
    findings
}

fn node_config(document: &Document) -> Vec<Finding> {
    let wrong = |path: &str, reason: String| {
        // NodeConfig paths write map keys in brackets; document paths separate them with dots.
        let mut bad = document.error_at(&path.replace('[', ".").replace(']', ""), reason.clone());
        if (bad.line, bad.column) == document.line_and_column("") {
            bad = document.error_at(path, reason);
        }
        Finding { path: path.to_owned(), ..bad.into() }
    };
    match NodeConfig::parse(document.value().to_string().as_bytes()) {
        Ok(config) => config
            .unknown_fields()
            .iter()
            .map(|path| Finding { warning: true, ..wrong(path, "unknown field; kilnd ignores it".to_owned()) })
            .collect(),
        Err(ParseError::Json { path, reason, .. }) => vec![wrong(&path, reason)],
        Err(ParseError::Unsupported(error)) => vec![wrong("apiVersion", error.to_string())],
        Err(ParseError::Invalid(invalid)) => {
            invalid.0.into_iter().map(|violation| wrong(&violation.path, violation.reason)).collect()
        }
    }
}

fn environment(document: &Document) -> Vec<Finding> {
    let entries = document.value().as_object().into_iter().flatten();
    let bad = entries.filter(|(_, value)| !value.is_string());
    bad.map(|(name, _)| document.error_at(name, "values of environment variables must be strings").into()).collect()
}

impl AssignmentError {
    /// Returns the position of the assignment.
    pub fn position(&self) -> &SourcePosition {
        match self {
            Self::Unknown { position, .. } | Self::NotAllowed { position, .. } | Self::WrongType { position, .. } => {
                position
            }
        }
    }

    /// Returns the message without the position.
    pub fn reason(&self) -> String {
        let text = self.to_string();
        let position = crate::provenance::ErrorPosition(self.position()).to_string();
        text.strip_prefix(&position).and_then(|rest| rest.strip_prefix(": ")).unwrap_or(&text).to_owned()
    }
}
