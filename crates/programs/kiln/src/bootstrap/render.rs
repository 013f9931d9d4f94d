//! `kiln bootstrap render`.

use std::path::PathBuf;

use clap::builder::PossibleValue;
use clap::{Args, ValueEnum};
use jiff::Timestamp;
use kiln_aks_formats::anc::{self, GpuDrivers, Host};
use kiln_aks_formats::{Secret, shell};
use kiln_bootstrap::RenderError;
use kiln_bootstrap::render::{Material, Target};
use kiln_bootstrap::review::{Sort, review};
use serde_json::json;

use super::detect::Detect;
use super::sources::Sources;
use super::{emit, files};
use crate::answer::Output;
use crate::failure::Failure;

const EXAMPLES: &str = "Examples:
  kiln bootstrap render --settings settings.yaml --node-pool pool.yaml --node-class class.yaml --to node-config
      kiln's own document; it holds no secret and may go into user data.
  kiln bootstrap render --settings settings.yaml --node-class class.yaml --to node-config-custom-data -o custom-data.b64
      The same for a first boot: custom data, in which kilnd finds the document and the token to join with.
  kiln bootstrap render --settings settings.yaml --node-class class.yaml --to custom-data -o custom-data.b64
      Custom data holds the token: the file is closed to everybody else.
  kiln bootstrap render --values values.json --to env --output json
      Inputs that were resolved elsewhere, as one object of names and texts.
  kiln bootstrap render --from aks-node-config config.json --to env --containerd-version 1.7.22
      What the node controller of an AKS image would export.
  kiln bootstrap render --settings settings.yaml --node-class class.yaml --to record -o node.record
      What a node is made of; `kiln bootstrap drift --record node.record` asks later what moved.

This command alone shows secrets, and only in targets that may hold them.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Render {
    /// What to make
    #[arg(long, value_enum, value_name = "TARGET")]
    to: To,
    #[command(flatten)]
    sources: Sources,
    #[command(flatten)]
    detect: Detect,
    /// Inputs that were resolved elsewhere, instead of sources
    #[arg(long, value_name = "FILE", conflicts_with_all = ["from", "settings", "node_pool", "node_class", "node_claim", "set", "kubeconfig", "azure", "azure_json", "ca_pin"], help_heading = "Sources")]
    values: Option<PathBuf>,
    /// Another program's document, instead of sources
    #[arg(long, num_args = 2, value_names = ["KIND", "FILE"], conflicts_with_all = ["settings", "node_pool", "node_class", "node_claim", "set", "kubeconfig", "azure", "azure_json", "ca_pin"], help_heading = "Sources")]
    from: Vec<String>,
    /// The containerd that the node would have, with --from
    #[arg(long, value_name = "VERSION", requires = "from", default_value = "", hide_default_value = true)]
    containerd_version: String,
    /// The image's list of components, with --from
    #[arg(long, value_name = "FILE", requires = "from")]
    components: Option<PathBuf>,
    /// Write to a file with mode 0600 instead of standard output
    #[arg(short, long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// A target as an option: its word is its own, and here is what people read about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct To(Target);

/// Every target, as clap wants it.
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
            Target::NodeConfig => "kiln's own document; no secret in it",
            Target::NodeConfigCustomData => "kiln's own document as custom data, base64, with the token beside it",
            Target::NbvScript => "The script of the Node Bootstrapping Variables",
            Target::AksNodeConfig => "The configuration of AKS's node controller",
            Target::Env => "The variables: lines for a shell, or one JSON object",
            Target::CustomData => "What Azure takes as custom data, base64",
            Target::AksNodeConfigCustomData => "The node controller's configuration as custom data",
            Target::Kubeadm => "`kubeadm join` as a cloud-config",
            Target::Record => "What a node is made of, to ask for drift later; no secret in it",
        };
        Some(PossibleValue::new(self.0.as_str()).help(help))
    }
}

pub(super) fn run(arguments: &Render, form: Output, now: &dyn Fn() -> Timestamp) -> Result<(), Failure> {
    let material = arguments.material(now)?;
    let To(target) = arguments.to;
    let rendered = match (target, form) {
        (Target::Env, Output::Text) => {
            let mut lines = String::new();
            for (name, text) in material.environment().map_err(|error| failure(&error))? {
                lines.push_str(&shell::assignment(&name, &text).map_err(Failure::input)?);
            }
            Secret::new(lines)
        }
        _ => material.render(target).map_err(|error| failure(&error))?,
    };
    let content = match (target, form) {
        (target, Output::Json) if target.is_text() => {
            Secret::new(format!("{}\n", json!({"target": target.as_str(), "content": rendered.expose()})))
        }
        (target, Output::Text) if target.is_base64() => Secret::new(format!("{}\n", rendered.expose())),
        _ => rendered,
    };
    emit::emit(&content, arguments.out.as_deref())
}

/// Every value that cannot be is on a line of its own.
pub(super) fn failure(error: &RenderError) -> Failure {
    match error {
        RenderError::Check(problems) => {
            let lines: Vec<String> = problems.0.iter().map(ToString::to_string).collect();
            Failure::input(lines.join("\nerror: "))
        }
        other => Failure::input(other),
    }
}

impl Render {
    fn material(&self, now: &dyn Fn() -> Timestamp) -> Result<Material, Failure> {
        if let Some(path) = &self.values {
            let document = files::document(path)?;
            return Ok(Material::Values(document.parse().map_err(Failure::input)?));
        }
        match &self.from[..] {
            [] => {}
            [kind, file] if kind == "aks-node-config" => return self.node_controller(&PathBuf::from(file)),
            [kind, ..] => {
                return Err(Failure::input(format_args!("--from {kind}: only `aks-node-config` is read")));
            }
        }
        if self.sources.is_empty() && !self.detect.is_wanted() {
            let hint = "give --settings, --node-pool and --node-class, or --values, or --from";
            return Err(Failure::input("there is nothing to render from").hint(hint));
        }
        Ok(Material::Layers(Box::new(self.detect.resolve(&self.sources, now)?)))
    }

    fn node_controller(&self, path: &std::path::Path) -> Result<Material, Failure> {
        let text = files::text(path)?;
        let found = review(&path.display().to_string(), &text, Some(Sort::AksNodeConfig));
        // A node goes on with what it could read; whoever renders wants to know first.
        if let Some(problem) = found.findings.iter().find(|finding| !finding.harmless && finding.path != "version") {
            return Err(Failure::input(problem));
        }
        let drivers = match &self.components {
            Some(file) => {
                GpuDrivers::from_components(&files::bytes(file)?).map_err(|error| Failure::file(file, error))?
            }
            None => GpuDrivers::default(),
        };
        let host = Host { containerd_version: self.containerd_version.clone(), drivers };
        Ok(Material::NodeController(Box::new(anc::parse(text.as_bytes()).config), host))
    }
}
