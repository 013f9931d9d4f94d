//! `kiln bootstrap render`.

use std::path::PathBuf;

use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};
use jiff::Timestamp;
use kiln_aks_formats::anc::{self, GpuDrivers, Host};
use kiln_aks_formats::{Secret, shell};
use kiln_bootstrap::RenderError;
use kiln_bootstrap::render::{RenderInput, Target};
use kiln_bootstrap::review::{FileKind, review};
use serde_json::json;

use super::detect::Detect;
use super::sources::Sources;
use super::{emit, files};
use crate::answer::Output;
use crate::failure::Failure;

const EXAMPLES: &str = "Examples:
  kiln bootstrap render --settings settings.yaml --node-pool pool.yaml --node-class class.yaml --to node-config
      A NodeConfig. It contains no secrets and can be passed as user data.
  kiln bootstrap render --settings settings.yaml --node-class class.yaml --to node-config-custom-data --out custom-data.b64
      Custom data for a first boot, from which kilnd reads the NodeConfig and the bootstrap token.
  kiln bootstrap render --settings settings.yaml --node-class class.yaml --to custom-data --out custom-data.b64
      Custom data for an AKS image. It contains the token, so the file has mode 0600.
  kiln bootstrap render --values values.json --to env --output json
      Environment variables from inputs that were resolved elsewhere, as a JSON object.
  kiln bootstrap render --aks-node-config config.json --to env --containerd-version 1.7.22
      Environment variables that the node controller of an AKS image would export.
  kiln bootstrap render --settings settings.yaml --node-class class.yaml --to record --out node.record
      Records the values a node is created from, for `kiln bootstrap drift --record node.record`.

This is the only command that outputs secrets, and only in targets that may contain them.
Exit codes: 0 success, 1 failed, 2 usage error or invalid input.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Render {
    /// Output to render
    #[arg(long, value_enum, value_name = "TARGET")]
    to: To,
    #[command(flatten)]
    sources: Sources,
    #[command(flatten)]
    detect: Detect,
    /// Inputs that were resolved elsewhere, instead of sources
    #[arg(long, value_name = "FILE", conflicts_with_all = ["aks_node_config", "settings", "node_pool", "node_class", "node_claim", "set", "kubeconfig", "azure", "azure_json", "ca_pin"], help_heading = "Sources")]
    values: Option<PathBuf>,
    /// Configuration of the AKS node controller, instead of sources
    #[arg(long, value_name = "FILE", conflicts_with_all = ["settings", "node_pool", "node_class", "node_claim", "set", "kubeconfig", "azure", "azure_json", "ca_pin"], help_heading = "Sources")]
    aks_node_config: Option<PathBuf>,
    /// containerd version of the node, with --aks-node-config
    #[arg(long, value_name = "VERSION", requires = "aks_node_config", default_value = "", hide_default_value = true)]
    containerd_version: String,
    /// `components.json` of the image, with --aks-node-config
    #[arg(long, value_name = "FILE", requires = "aks_node_config")]
    components: Option<PathBuf>,
    /// Write to a file with mode 0600 instead of standard output
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// A target as a command-line value with a help text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct To(Target);

/// All targets.
const ALL: [To; Target::ALL.len()] = {
    let mut all = [To(Target::ALL[0]); Target::ALL.len()];
    let mut index = 1;
    while index < all.len() {
        all[index] = To(Target::ALL[index]);
        index += 1;
    }
    all
};

impl ValueEnum for To {
    fn value_variants<'a>() -> &'a [Self] {
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        let help = match self.0 {
            Target::NodeConfig => "NodeConfig, without secrets",
            Target::NodeConfigCustomData => "NodeConfig and bootstrap token as custom data in base64",
            Target::NbvScript => "Script with the Node Bootstrapping Variables",
            Target::AksNodeConfig => "AKSNodeConfig, the configuration of the AKS node controller",
            Target::Env => "Node Bootstrapping Variables as shell assignments, or as a JSON object",
            Target::CustomData => "nbv-script as custom data in base64",
            Target::AksNodeConfigCustomData => "aks-node-config as custom data in base64",
            Target::Kubeadm => "`kubeadm join` as a cloud-config",
            Target::Record => "Values a node is created from, for a later drift check; without secrets",
        };
        Some(PossibleValue::new(self.0.as_str()).help(help))
    }
}

pub(super) fn run(arguments: &Render, output: Output, now: &dyn Fn() -> Timestamp) -> Result<(), Failure> {
    let input = arguments.input(now)?;
    let To(target) = arguments.to;
    let rendered = match (target, output) {
        (Target::Env, Output::Text) => {
            let mut lines = String::new();
            for (name, text) in input.environment().map_err(|error| failure(&error))? {
                lines.push_str(&shell::assignment(&name, &text).map_err(Failure::input)?);
            }
            Secret::new(lines)
        }
        _ => input.render(target).map_err(|error| failure(&error))?,
    };
    let content = match (target, output) {
        (target, Output::Json) if target.is_text() => {
            Secret::new(format!("{}\n", json!({"target": target.as_str(), "content": rendered.expose()})))
        }
        (target, Output::Text) if target.is_base64() => Secret::new(format!("{}\n", rendered.expose())),
        _ => rendered,
    };
    emit::emit(&content, arguments.out.as_deref())
}

/// Formats each invalid value on its own line.
pub(super) fn failure(error: &RenderError) -> Failure {
    match error {
        RenderError::Check(invalid) => {
            let lines: Vec<String> = invalid.0.iter().map(ToString::to_string).collect();
            Failure::input(lines.join("\nerror: "))
        }
        other => Failure::input(other),
    }
}

impl Render {
    fn input(&self, now: &dyn Fn() -> Timestamp) -> Result<RenderInput, Failure> {
        if let Some(path) = &self.values {
            let document = files::document(path)?;
            return Ok(RenderInput::Values(document.parse().map_err(Failure::input)?));
        }
        if let Some(path) = &self.aks_node_config {
            return self.read_aks_node_config(path);
        }
        if self.sources.is_empty() && !self.detect.is_enabled() {
            let hint = "pass `--settings`, `--node-pool` and `--node-class`, or `--values`, or `--aks-node-config`";
            return Err(Failure::input("no input to render from").hint(hint));
        }
        Ok(RenderInput::Sources(Box::new(self.detect.resolve(&self.sources, now)?)))
    }

    fn read_aks_node_config(&self, path: &std::path::Path) -> Result<RenderInput, Failure> {
        let text = files::text(path)?;
        let review = review(&path.display().to_string(), &text, Some(FileKind::AksNodeConfig));
        // A node continues with the fields before an error; a render must not.
        if let Some(finding) = review.findings.iter().find(|finding| !finding.warning && finding.path != "version") {
            return Err(Failure::input(finding));
        }
        let drivers = match &self.components {
            Some(file) => {
                GpuDrivers::from_components(&files::bytes(file)?).map_err(|error| Failure::file(file, error))?
            }
            None => GpuDrivers::default(),
        };
        let host = Host { containerd_version: self.containerd_version.clone(), drivers };
        Ok(RenderInput::AksNodeConfig(Box::new(anc::parse(text.as_bytes()).config), host))
    }
}
