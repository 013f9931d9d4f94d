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
      Prints the value of Karpenter's annotation karpenter.azure.com/aksnodeclass-hash.
  kiln bootstrap hash --node-class class.yaml --with-defaults
      Prints the hash after the API server has added its defaults.

Exit codes: 0 success, 2 usage error or invalid input.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Hash {
    /// Karpenter's `AKSNodeClass`
    #[arg(long, value_name = "FILE")]
    node_class: PathBuf,
    /// Add the defaults of the API server
    #[arg(long)]
    with_defaults: bool,
}

pub(super) fn run(arguments: &Hash, output: Output) -> Result<(), Failure> {
    let document = files::document(&arguments.node_class)?;
    kiln_bootstrap::sources::node_class(&document, "amd64").map_err(Failure::input)?;
    let class: AksNodeClass = document.parse().map_err(Failure::input)?;
    let spec = if arguments.with_defaults { class.spec.with_defaults() } else { class.spec };
    let hash = node_class_hash(&spec);
    let value = json!({"hash": hash, "version": HASH_VERSION});
    answer::either(output, &value, |_| format!("{hash}\n"))
}
