//! `kiln local machine`: machines outside of pools.

use std::fs;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use kiln_local::{Size, ids};
use kiln_types::{
    LAUNCH_DONE, LAUNCH_TAG, MachineDisk, MachineName, MachineSpec, Machines as _, OWNER_TAG, Priority, Secret,
    SecurityType, Tags,
};
use serde_json::json;

use super::Common;
use super::factory::failed;
use crate::answer;
use crate::failure::Failure;
use crate::prototype::connect::Now;

const CREATE: &str = "Example:
  kiln local machine create build-1 --image debian --custom-data first-boot.sh

Running it again completes an interrupted creation. The metadata service describes it as a virtual machine without a scale set.";

/// The owner tag of machines that this command creates.
const OWNER: &str = "kiln-local";

#[derive(Debug, Subcommand)]
pub(crate) enum Machine {
    /// Create a machine outside of pools and start it
    Create(Box<Create>),
    /// Delete a machine outside of pools, with its disk
    Delete(Delete),
}

#[derive(Debug, Args)]
#[command(after_help = CREATE)]
pub(crate) struct Create {
    #[command(flatten)]
    common: Common,
    /// Name of the machine and of its node
    name: MachineName,
    /// Name of an imported image
    #[arg(long, value_name = "NAME")]
    image: String,
    /// Processors and MiB of memory; used by virtual machines
    #[arg(long, value_name = "CORESxMIB", default_value = "1x1024")]
    size: Size,
    /// Custom data, which the machine reads at its first boot
    #[arg(long, value_name = "FILE")]
    custom_data: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct Delete {
    #[command(flatten)]
    common: Common,
    /// Name of the machine
    name: MachineName,
}

pub(crate) async fn run(command: &Machine, now: &Now) -> Result<(), Failure> {
    match command {
        Machine::Create(command) => create(command, now).await,
        Machine::Delete(Delete { common, name }) => {
            common.state.open(now)?.delete(name).await.map_err(|error| failed(&error))?;
            answer::either(common.output, &json!({"machine": name}), |_| format!("deleted machine `{name}`\n"))
        }
    }
}

async fn create(command: &Create, now: &Now) -> Result<(), Failure> {
    let Create { common, name, image, size, custom_data } = command;
    let custom_data = match custom_data {
        Some(path) => fs::read_to_string(path).map_err(|error| Failure::file(path, error))?,
        None => String::new(),
    };
    let local = common.state.open(now)?;
    let spec = MachineSpec {
        name: name.clone(),
        location: ids::LOCATION.to_owned(),
        zone: None,
        size: size.to_string(),
        image: ids::image_id(image),
        subnet: String::new(),
        security_group: None,
        custom_data: Secret::new(custom_data),
        admin_user: String::new(),
        ssh_public_key: String::new(),
        priority: Priority::Regular,
        identities: Vec::new(),
        disk: MachineDisk { kind: String::new(), size_gib: None, encryption_set: None },
        security_type: SecurityType::Standard,
        encryption_at_host: false,
        // The output confirms the machine, so that no later confirmation is needed.
        tags: Tags::from([(OWNER_TAG, OWNER), (LAUNCH_TAG, LAUNCH_DONE)].map(|(a, b)| (a.to_owned(), b.to_owned()))),
    };
    let created = local.create(&spec).await.map_err(|error| failed(&error))?;
    answer::either(common.output, &json!({"machine": created.name, "parts": created.parts}), |_| {
        format!("started machine `{name}`\n")
    })
}
