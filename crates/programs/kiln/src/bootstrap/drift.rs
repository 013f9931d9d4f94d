//! `kiln bootstrap drift`.

use std::path::{Path, PathBuf};

use clap::Args;
use jiff::Timestamp;
use kiln_aks_formats::karpenter::{AksNodeClass, NodeClaim};
use kiln_bootstrap::compare::redact;
use kiln_bootstrap::drift::{DriftedField, Record, highest_effect};
use kiln_bootstrap::node_drift::{self, Node};
use kiln_bootstrap::review::FileKind;
use kiln_node_config::Effect;
use serde::Serialize;
use serde_json::Value;

use super::detect::Detect;
use super::sources::Sources;
use super::{files, show};
use crate::answer::{self, Output};
use crate::failure::Failure;

const EXAMPLES: &str = "Examples:
  kiln bootstrap render --settings settings.yaml --node-class class.yaml --to record --out node.record
      Records the values a node is created from.
  kiln bootstrap drift --record node.record --settings settings.yaml --node-class class.yaml
      Shows what changed since, and whether a new NodeConfig or a new node is needed.
  kiln bootstrap drift --node-claim claim.yaml --node-class class.yaml --node node.yaml
      Shows the drift reason that Karpenter would report.

A rotated token is not drift. Exit codes: 0 no drift, 1 failed, 2 usage error or invalid input, 5 drift found.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Drift {
    /// Record of the values the node was created from (`kiln bootstrap render --to record`)
    #[arg(long, value_name = "FILE", required_unless_present = "node_claim")]
    record: Option<PathBuf>,
    /// Node object of the claim
    #[arg(long, value_name = "FILE", requires = "node_claim")]
    node: Option<PathBuf>,
    #[command(flatten)]
    sources: Sources,
    #[command(flatten)]
    detect: Detect,
}

/// Result of the command.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    drifted: bool,
    /// Action that applies all changes.
    needs: Needs,
    /// Drift reason of Karpenter.
    #[serde(skip_serializing_if = "Option::is_none")]
    karpenter: Option<&'static str>,
    changes: Vec<Line>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Needs {
    Nothing,
    NewNodeConfig,
    NewNode,
}

impl Needs {
    fn from_effect(effect: Effect) -> Self {
        match effect {
            Effect::None => Self::Nothing,
            Effect::Replace => Self::NewNode,
            _ => Self::NewNodeConfig,
        }
    }

    fn description(self) -> &'static str {
        match self {
            Self::Nothing => "no change on the node",
            Self::NewNodeConfig => "a new NodeConfig",
            Self::NewNode => "a new node",
        }
    }
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    input: String,
    from: Value,
    to: Value,
    source: String,
    position: String,
    computed: Vec<String>,
    effect: Effect,
    needs: Needs,
}

impl From<DriftedField> for Line {
    fn from(drifted: DriftedField) -> Self {
        Self {
            from: redact(&drifted.field, drifted.from),
            to: redact(&drifted.field, drifted.to),
            source: drifted.kind.to_string(),
            position: drifted.position.to_string(),
            computed: drifted.computed,
            effect: drifted.effect,
            needs: Needs::from_effect(drifted.effect),
            input: drifted.field,
        }
    }
}

pub(super) fn run(arguments: &Drift, output: Output, now: &dyn Fn() -> Timestamp) -> Result<(), Failure> {
    let drifted = match &arguments.record {
        Some(path) => {
            let recorded = record(path)?;
            let resolved = arguments.detect.resolve(&arguments.sources, now)?;
            resolved.check().map_err(|invalid| super::render::failure(&invalid.into()))?;
            recorded.drift(&Record::from_inputs(&resolved).map_err(Failure::input)?)
        }
        None => Vec::new(),
    };
    let karpenter = arguments.karpenter()?;
    let needs = if karpenter.is_some() { Needs::NewNode } else { Needs::from_effect(highest_effect(&drifted)) };
    let changes: Vec<Line> = drifted.into_iter().map(Line::from).collect();
    let answer = Answer { drifted: karpenter.is_some() || !changes.is_empty(), needs, karpenter, changes };
    answer::either(output, &answer, text)?;
    if answer.drifted {
        return Err(Failure::new(5, format_args!("drift found: the node needs {}", needs.description())));
    }
    Ok(())
}

fn record(path: &Path) -> Result<Record, Failure> {
    let document = files::document(path)?;
    if FileKind::detect(document.value()) != FileKind::Record {
        let hint = "create a record with `kiln bootstrap render --to record --out FILE`";
        return Err(Failure::file(path, "the file is not a record").hint(hint));
    }
    document.parse().map_err(Failure::input)
}

impl Drift {
    /// Returns Karpenter's drift reason, if there is a claim whose machine exists.
    fn karpenter(&self) -> Result<Option<&'static str>, Failure> {
        let Some(path) = &self.sources.node_claim else { return Ok(None) };
        let claim: NodeClaim = files::document(path)?.parse().map_err(Failure::input)?;
        if self.record.is_some() && claim.status.provider_id.is_empty() {
            return Ok(None);
        }
        let class: Option<AksNodeClass> = match &self.sources.node_class {
            Some(path) => Some(files::document(path)?.parse().map_err(Failure::input)?),
            None => None,
        };
        let node = self.node.as_deref().map(|path| Ok::<_, Failure>(node(&files::document(path)?))).transpose()?;
        let resolved = self.sources.resolve()?;
        let identity = resolved.text("kubeletIdentityClientId");
        let reason = node_drift::reason(&claim, class.as_ref(), node.as_ref(), identity).map_err(Failure::input)?;
        Ok(reason.map(node_drift::Reason::as_str))
    }
}

fn node(document: &kiln_bootstrap::Document) -> Node {
    let value = document.value();
    let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    let labels = value.pointer("/metadata/labels").and_then(Value::as_object).into_iter().flatten();
    Node {
        kubelet_version: text("/status/nodeInfo/kubeletVersion"),
        labels: labels.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect(),
        deleting: value.pointer("/metadata/deletionTimestamp").is_some(),
    }
}

fn text(answer: &Answer) -> String {
    if !answer.drifted {
        return "no drift\n".to_owned();
    }
    let mut text = answer.karpenter.map_or_else(String::new, |reason| format!("Karpenter reason: {reason}\n"));
    if answer.changes.is_empty() {
        return text;
    }
    let rows = answer.changes.iter().map(|line| {
        [
            line.input.clone(),
            show::short(&line.from),
            show::short(&line.to),
            format!("{}, {}", line.source, line.position),
            line.computed.join(", "),
            line.effect.to_string(),
            line.needs.description().to_owned(),
        ]
    });
    text.push_str(&show::table(["INPUT", "OLD", "NEW", "SOURCE", "DEPENDENTS", "EFFECT", "NEEDS"], rows));
    text
}
