//! `kiln bootstrap hash`.

use std::path::PathBuf;

use clap::Args;
use kiln_aks_formats::karpenter::{AksNodeClass, HASH_VERSION, node_class_hash};
use serde_json::json;

use super::files;
use crate::answer::{self, Output};
use crate::failure::Failure;

const EXAMPLES: &str = "Examples:
  kiln bootstrap hash --node-class class.yaml
      The number that Karpenter writes into karpenter.azure.com/aksnodeclass-hash.
  kiln bootstrap hash --node-class class.yaml --with-defaults
      The same once the API server has filled in what the file leaves out.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Hash {
    /// Karpenter's `AKSNodeClass`
    #[arg(long, value_name = "FILE")]
    node_class: PathBuf,
    /// Fill in what the API server would
    #[arg(long)]
    with_defaults: bool,
}

pub(super) fn run(arguments: &Hash, form: Output) -> Result<(), Failure> {
    let document = files::document(&arguments.node_class)?;
    kiln_bootstrap::sources::node_class(&document, "amd64").map_err(Failure::input)?;
    let class: AksNodeClass = document.parse().map_err(Failure::input)?;
    let spec = if arguments.with_defaults { class.spec.with_defaults() } else { class.spec };
    let hash = node_class_hash(&spec);
    let value = json!({"hash": hash, "version": HASH_VERSION});
    answer::either(form, &value, |_| format!("{hash}\n"))
}
