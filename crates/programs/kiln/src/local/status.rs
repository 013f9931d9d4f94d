//! `kiln local status`, `start` and `stop`.

use clap::Args;
use comfy_table::Table;
use comfy_table::presets::NOTHING;
use kiln_local::MachineRunner as _;
use kiln_local::sandbox::address;
use serde_json::{Value, json};

use super::Common;
use super::factory::{failed, image_id};
use super::pool::lines;
use crate::answer;
use crate::failure::Failure;
use crate::prototype::connect::Now;

const EXAMPLES: &str = "Examples:
  kiln local status
  kiln local status --output json | jq -r '.machines[] | select(.on) | .address'

The console output of a machine is in `consoles/` of the state folder.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Status {
    #[command(flatten)]
    common: Common,
}

pub(crate) async fn start(command: &Status, now: &Now) -> Result<(), Failure> {
    command.common.state.open(now)?.restore().await.map_err(|error| failed(&error))?;
    run(command, now).await
}

pub(crate) async fn stop(command: &Status, now: &Now) -> Result<(), Failure> {
    command.common.state.open(now)?.suspend().await.map_err(|error| failed(&error))?;
    run(command, now).await
}

pub(crate) async fn run(Status { common }: &Status, now: &Now) -> Result<(), Failure> {
    let local = common.state.open(now)?;
    let mut all = Vec::new();
    for machine in local.machines().await.map_err(|error| failed(&error))? {
        let on = local.runner().is_running(&machine.name).await.map_err(|error| Failure::chain(1, &error))?;
        let own = address(machine.number).map(|address| address.to_string()).unwrap_or_default();
        let mut value = serde_json::to_value(&machine).map_err(Failure::failed)?;
        value["image"] = json!(image_id(&machine.image));
        value["on"] = json!(on);
        value["address"] = json!(own);
        value["leader"] = json!(local.runner().leader(&machine.name));
        all.push(value);
    }
    answer::either(common.output, &json!({"state": local.store().folder(), "machines": all}), |_| {
        let mut table = Table::new();
        table.load_style(NOTHING).set_header(["MACHINE", "NODE", "ADDRESS", "KIND", "ON", "LAYERS"]);
        for machine in &all {
            let cell = |name: &str| match &machine[name] {
                Value::String(text) => text.clone(),
                Value::Bool(yes) => if *yes { "yes" } else { "no" }.to_owned(),
                other => other.to_string(),
            };
            table.add_row(["name", "computerName", "address", "kind", "on", "layers"].map(cell));
        }
        lines(&table)
    })
}
