//! `kiln local machine`: machines that are of no pool.

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

Repeating it completes a machine that was begun. The metadata service knows it as a virtual machine of no scale set.";

/// Whose machines they are: nobody else's command finds them by its own name.
const OWNER: &str = "kiln-local";

#[derive(Debug, Subcommand)]
pub(crate) enum Machine {
    /// Make a machine that is of no pool, and switch it on
    Create(Box<Create>),
    /// Remove a machine that is of no pool, with its disk
    Delete(Delete),
}

#[derive(Debug, Args)]
#[command(after_help = CREATE)]
pub(crate) struct Create {
    #[command(flatten)]
    common: Common,
    /// Name of the machine, and of its node
    name: MachineName,
    /// Name of an imported image
    #[arg(long, value_name = "NAME")]
    image: String,
    /// Processors and MiB of memory of a virtual machine
    #[arg(long, value_name = "CORESxMIB", default_value = "1x1024")]
    size: Size,
    /// What the machine reads at its first boot
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
            answer::either(common.output, &json!({"machine": name}), |_| format!("machine `{name}` is gone\n"))
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
        // Whoever reads the answer knows of it: there is nothing to be confirmed later.
        tags: Tags::from([(OWNER_TAG, OWNER), (LAUNCH_TAG, LAUNCH_DONE)].map(|(a, b)| (a.to_owned(), b.to_owned()))),
    };
    let made = local.create(&spec).await.map_err(|error| failed(&error))?;
    answer::either(common.output, &json!({"machine": made.name, "parts": made.parts}), |_| {
        format!("machine `{name}` is on\n")
    })
}
