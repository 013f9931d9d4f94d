//! `kiln node push`: a NodeConfig to the nodes of a pool, by user data.

use std::path::{Path, PathBuf};

use clap::Args;
use jiff::Timestamp;
use kiln_azure::login::Environment;
use kiln_bootstrap::Document;
use kiln_engine::{PushOutcome, PushRequest};
use kiln_fleet_api::RolloutPolicySpec;
use kiln_types::{Factory, PoolName};
use serde_json::Value;

use crate::bootstrap::files;
use crate::failure::Failure;
use crate::fleet::document;
use crate::prototype::common::Common;
use crate::prototype::{Session, SessionSettings, clock, connect, local_factory, runs};

pub(super) const EXAMPLES: &str = "Examples:
  kiln node push -f web.yaml --pool k8s-pool1-12345678-vmss --dry-run
      Checks the document against the nodes and shows the waves, without changing anything.
  kiln node push -f web.yaml --pool k8s-pool1-12345678-vmss --policy-file policy.yaml
  kiln node push -f web.yaml --pool web --local /var/lib/kiln-local

Each instance gets the document as user data, wave by wave; a wave starts when the nodes of the previous one have committed it. New \
nodes get it after the last wave. If too many nodes fail, the previous user data of all instances is restored. Repeat the command to \
continue an interrupted push.

Exit codes: 0 success; 1 failed or refused; 2 invalid usage or input; 3 the pool is in use by another process; 130 stopped.";

#[derive(Debug, Args)]
pub(super) struct Push {
    /// NodeConfig in YAML or JSON; `-` reads standard input
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    file: PathBuf,
    /// Scale set, or pool of `kiln local`
    #[arg(long, value_name = "POOL")]
    pool: PoolName,
    /// RolloutPolicy in YAML or JSON [default: one node, then three times as many up to 30 %, stop after one failure]
    #[arg(long, value_name = "FILE")]
    policy_file: Option<PathBuf>,
    /// Show the waves without changing anything
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    common: Common,
}

pub(super) fn run(command: &Push, now: &dyn Fn() -> Timestamp) -> Result<(), Failure> {
    let request = PushRequest {
        pool: command.pool.clone(),
        document: document::load(&command.file)?.config,
        policy: command.policy_file.as_deref().map(policy).transpose()?.unwrap_or_default(),
        dry_run: command.dry_run,
    };
    let environment: Environment = std::env::vars().collect();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::failed(format_args!("runtime: {error}")))?;
    let result = runtime.block_on(async {
        let common = &command.common;
        let clock = clock(common, now);
        let settings = SessionSettings { common, journal: None, stops_gracefully: true };
        if let Some(state) = common.local(&environment) {
            let factory = local_factory(&state, &clock)?;
            return push(Session::open(factory, settings, &environment, clock).await?, &request).await;
        }
        let factory = connect::azure(common, &environment, &clock).await?;
        push(Session::open(factory, settings, &environment, clock).await?, &request).await
    });
    runtime.shutdown_background();
    result
}

async fn push(session: Session<impl Factory>, request: &PushRequest) -> Result<(), Failure> {
    let pushed = kiln_engine::push(&session.context, request).await;
    let report = pushed.map_err(|error| runs::failure(&error))?;
    session.print(&report.to_string(), &report)?;
    match report.outcome {
        PushOutcome::Reverted => {
            let problem = format!("generation {} failed on pool `{}`", report.generation, report.pool);
            Err(Failure::failed(problem).hint("correct the document, raise `metadata.generation` and push it again"))
        }
        PushOutcome::Planned | PushOutcome::Complete => Ok(()),
    }
}

/// Reads a RolloutPolicy, or only its spec.
fn policy(path: &Path) -> Result<RolloutPolicySpec, Failure> {
    let (file, text) = (path.display().to_string(), files::text(path)?);
    let document = Document::read(&file, &text).map_err(Failure::input)?;
    let mut spec = document.value().clone();
    if let Some(kind) = spec.get("kind").and_then(Value::as_str).map(ToOwned::to_owned) {
        if kind != "RolloutPolicy" {
            return Err(Failure::file(path, format_args!("expected a RolloutPolicy, found kind `{kind}`")));
        }
        spec = spec.get("spec").cloned().unwrap_or_default();
    }
    if let Some(unknown) = unknown_field(&spec, &schema(), "") {
        return Err(Failure::file(path, format_args!("unknown field `{unknown}` in the policy")));
    }
    serde_json::from_value(spec).map_err(|error| Failure::file(path, error))
}

/// The schema of the spec of a RolloutPolicy, as the API server has it.
fn schema() -> Value {
    let all = kiln_fleet_api::definitions().into_iter();
    let mut definitions = all.filter_map(|one| serde_json::to_value(one).ok());
    let found = definitions.find(|one| one.pointer("/spec/names/kind") == Some(&Value::from("RolloutPolicy")));
    let path = "/spec/versions/0/schema/openAPIV3Schema/properties/spec";
    found.and_then(|one| one.pointer(path).cloned()).unwrap_or_default()
}

/// The path of the first field that the schema does not have.
fn unknown_field(value: &Value, schema: &Value, path: &str) -> Option<String> {
    match value {
        Value::Object(fields) => fields.iter().find_map(|(name, field)| {
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            match schema.get("properties").and_then(|known| known.get(name)) {
                Some(known) => unknown_field(field, known, &path),
                None => Some(path),
            }
        }),
        Value::Array(items) => (items.iter().enumerate())
            .find_map(|(index, item)| unknown_field(item, schema.get("items")?, &format!("{path}[{index}]"))),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<RolloutPolicySpec, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("policy.yaml");
        std::fs::write(&path, text).unwrap();
        policy(&path).map_err(|failure| failure.message)
    }

    #[test]
    fn policy_is_read_from_an_object_or_from_its_spec() {
        let spec = "waves: {first: {nodes: 2, prefer: [canary=true], soak: 30m}}\nbudgets: [{maxUnavailable: 10%}]\n";
        let read_spec = read(spec).unwrap();
        assert_eq!((read_spec.waves.first.nodes, read_spec.budgets.len()), (2, 1));
        let indented = spec.replace('\n', "\n  ");
        let object = format!(
            "apiVersion: node.kiln.dev/v1alpha1\nkind: RolloutPolicy\nmetadata: {{name: p}}\nspec:\n  {indented}"
        );
        assert_eq!(read(&object).unwrap(), read_spec);
    }

    #[test]
    fn misspelt_fields_are_errors() {
        for (text, named) in [
            ("wave: {}\n", "`wave`"),
            ("waves: {first: {node: 2}}\n", "`waves.first.node`"),
            ("gates: [{nodeReadyFor: 5m}, {nodesReady: true}]\n", "`gates[1].nodesReady`"),
            ("kind: Rollout\n", "kind `Rollout`"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(named), "{error}");
        }
    }
}
