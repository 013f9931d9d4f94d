//! `kiln bootstrap drift`.

use std::path::{Path, PathBuf};

use clap::Args;
use jiff::Timestamp;
use kiln_aks_formats::karpenter::{AksNodeClass, NodeClaim};
use kiln_bootstrap::compare::shown;
use kiln_bootstrap::drift::{Moved, Record, highest};
use kiln_bootstrap::node_drift::{self, Node};
use kiln_bootstrap::review::Sort;
use kiln_node_config::Effect;
use serde::Serialize;
use serde_json::Value;

use super::detect::Detect;
use super::sources::Sources;
use super::{files, show};
use crate::answer::{self, Output};
use crate::failure::Failure;

const EXAMPLES: &str = "Examples:
  kiln bootstrap render --settings settings.yaml --node-class class.yaml --to record -o node.record
      When a node is made: what it is made of.
  kiln bootstrap drift --record node.record --settings settings.yaml --node-class class.yaml
      Later: what moved, where it stands, what follows from it, and whether a new NodeConfig will do.
  kiln bootstrap drift --node-claim claim.yaml --node-class class.yaml --node node.yaml
      What Karpenter would call it.

A rotated token is no drift. Exit codes: 0 nothing moved, 2 usage or bad input, 5 drift found.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Drift {
    /// What the node was made of, from `kiln bootstrap render --to record`
    #[arg(long, value_name = "FILE", required_unless_present = "node_claim")]
    record: Option<PathBuf>,
    /// The cluster's Node object of the claim
    #[arg(long, value_name = "FILE", requires = "node_claim")]
    node: Option<PathBuf>,
    #[command(flatten)]
    sources: Sources,
    #[command(flatten)]
    detect: Detect,
}

/// The answer.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    drifted: bool,
    /// What would bring the node in step.
    needs: Needs,
    /// Karpenter's word for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    karpenter: Option<&'static str>,
    moved: Vec<Line>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Needs {
    Nothing,
    NewNodeConfig,
    NewNode,
}

impl Needs {
    fn of(effect: Effect) -> Self {
        match effect {
            Effect::None => Self::Nothing,
            Effect::Replace => Self::NewNode,
            _ => Self::NewNodeConfig,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Nothing => "nothing on the node",
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
    place: String,
    computed: Vec<String>,
    effect: Effect,
    needs: Needs,
}

impl From<Moved> for Line {
    fn from(moved: Moved) -> Self {
        Self {
            from: shown(&moved.field, moved.from),
            to: shown(&moved.field, moved.to),
            source: moved.kind.to_string(),
            place: moved.place.to_string(),
            computed: moved.computed,
            effect: moved.effect,
            needs: Needs::of(moved.effect),
            input: moved.field,
        }
    }
}

pub(super) fn run(arguments: &Drift, form: Output, now: &dyn Fn() -> Timestamp) -> Result<(), Failure> {
    let moved = match &arguments.record {
        Some(path) => {
            let then = record(path)?;
            let resolved = arguments.detect.resolve(&arguments.sources, now)?;
            resolved.check().map_err(|problems| super::render::failure(&problems.into()))?;
            then.drift(&Record::of(&resolved).map_err(Failure::input)?)
        }
        None => Vec::new(),
    };
    let karpenter = arguments.karpenter()?;
    let needs = if karpenter.is_some() { Needs::NewNode } else { Needs::of(highest(&moved)) };
    let drifted = karpenter.is_some() || !moved.is_empty();
    let answer = Answer { drifted, needs, karpenter, moved: moved.into_iter().map(Line::from).collect() };
    answer::either(form, &answer, text)?;
    if drifted { Err(Failure::new(5, format_args!("drift found: the node needs {}", needs.words()))) } else { Ok(()) }
}

fn record(path: &Path) -> Result<Record, Failure> {
    let document = files::document(path)?;
    if Sort::of(document.value()) != Sort::Record {
        let hint = "`kiln bootstrap render --to record -o FILE` makes one";
        return Err(Failure::file(path, "this is no record of what a node was made of").hint(hint));
    }
    document.parse().map_err(Failure::input)
}

impl Drift {
    /// Karpenter's own answer, where there is a claim whose machine exists.
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
        return "nothing moved\n".to_owned();
    }
    let mut text = answer.karpenter.map_or_else(String::new, |reason| format!("Karpenter calls it {reason}.\n"));
    if answer.moved.is_empty() {
        return text;
    }
    let rows = answer.moved.iter().map(|line| {
        [
            line.input.clone(),
            show::short(&line.from),
            show::short(&line.to),
            format!("{}, {}", line.source, line.place),
            line.computed.join(", "),
            line.effect.to_string(),
            line.needs.words().to_owned(),
        ]
    });
    text.push_str(&show::table(["INPUT", "WAS", "IS", "SOURCE", "COMPUTED FROM IT", "EFFECT", "NEEDS"], rows));
    text
}
