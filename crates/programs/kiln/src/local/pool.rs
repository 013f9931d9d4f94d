//! `kiln local pool`: pools of machines with the same recipe.

use std::fs;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use comfy_table::Table;
use comfy_table::presets::NOTHING;
use kiln_local::{PoolSpec, Size, ids};
use kiln_types::{Factory as _, InstanceId, PoolName, RecipeChange, Revision, SecretBytes, Tags};
use serde_json::json;

use super::Common;
use super::factory::{Local, failed, image_id};
use crate::answer;
use crate::failure::Failure;
use crate::prototype::connect::Now;

const CREATE: &str = "Examples:
  kiln local pool create nodes --image debian --count 2 --user-data node.json
  kiln local pool create vms --image debian-vm --size 2x2048

Machines can always read user data from the metadata service, for example a NodeConfig. Custom data is on the provisioning media at first
boot; `kiln prototype` removes it from a pool whose image no longer needs it (`--join`).";

#[derive(Debug, Subcommand)]
pub(crate) enum Pool {
    /// Create a pool and start its machines
    Create(Create),
    /// Change what new machines of a pool get
    Update(Update),
    /// List all pools
    List(List),
    /// Change the number of machines of a pool
    Scale(Scale),
    /// Delete a pool with its machines and their disks
    Delete(Delete),
}

#[derive(Debug, Args)]
#[command(after_help = CREATE)]
pub(crate) struct Create {
    #[command(flatten)]
    common: Common,
    /// Name of the pool; node names start with it
    name: PoolName,
    /// Name of an imported image
    #[arg(long, value_name = "NAME")]
    image: String,
    /// Number of machines
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    count: u32,
    /// Processors and MiB of memory; used by virtual machines
    #[arg(long, value_name = "CORESxMIB", default_value = "1x1024")]
    size: Size,
    /// User data, which machines read from the metadata service
    #[arg(long, value_name = "FILE")]
    user_data: Option<PathBuf>,
    /// Custom data, which machines read at their first boot
    #[arg(long, value_name = "FILE")]
    custom_data: Option<PathBuf>,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  kiln local pool update nodes --custom-data new-token.yaml\n\nExisting machines are not changed."
)]
pub(crate) struct Update {
    #[command(flatten)]
    common: Common,
    /// Name of the pool
    name: PoolName,
    /// Custom data, which machines read at their first boot
    #[arg(long, value_name = "FILE")]
    custom_data: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct List {
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  kiln local pool scale nodes 3\n\nMachines with the highest numbers are removed first."
)]
pub(crate) struct Scale {
    #[command(flatten)]
    common: Common,
    /// Name of the pool
    name: PoolName,
    /// New number of machines
    count: u32,
}

#[derive(Debug, Args)]
pub(crate) struct Delete {
    #[command(flatten)]
    common: Common,
    /// Name of the pool
    name: PoolName,
}

pub(crate) async fn run(command: &Pool, now: &Now) -> Result<(), Failure> {
    match command {
        Pool::Create(command) => create(command, now).await,
        Pool::Update(command) => update(command, now).await,
        Pool::List(command) => list(command, now).await,
        Pool::Scale(command) => scale(command, now).await,
        Pool::Delete(Delete { common, name }) => {
            let local = common.state.open(now)?;
            local.delete_pool(name).await.map_err(|error| failed(&error))?;
            answer::either(common.output, &json!({"pool": name}), |_| format!("deleted pool `{name}`\n"))
        }
    }
}

async fn create(command: &Create, now: &Now) -> Result<(), Failure> {
    let Create { common, name, image, count, size, .. } = command;
    let read = |path: &Option<PathBuf>| match path {
        Some(path) => fs::read_to_string(path).map(Some).map_err(|error| Failure::file(path, error)),
        None => Ok(None),
    };
    let custom_data = read(&command.custom_data)?.map(kiln_types::Secret::new);
    let user_data = SecretBytes::new(read(&command.user_data)?.unwrap_or_default());
    let local = common.state.open(now)?;
    let image = if image.starts_with('/') { image.clone() } else { ids::image_id(image) };
    let (name, tags) = (name.clone(), Tags::default());
    let spec = PoolSpec { name, image, capacity: *count, size: *size, custom_data, user_data, tags };
    local.create_pool(&spec).await.map_err(|error| failed(&error))?;
    print_pool(common, &local, &spec.name).await
}

async fn update(command: &Update, now: &Now) -> Result<(), Failure> {
    let Update { common, name, custom_data: path } = command;
    let custom_data = fs::read_to_string(path).map_err(|error| Failure::file(path, error))?;
    let local = common.state.open(now)?;
    let pool = local.describe_pool(name).await.map_err(|error| failed(&error))?;
    let change = RecipeChange { custom_data: Some(kiln_types::Secret::new(custom_data)), ..RecipeChange::default() };
    let revision = pool.revision.unwrap_or_else(|| Revision::new(""));
    local.set_recipe(name, &change, &revision).await.map_err(|error| failed(&error))?;
    print_pool(common, &local, name).await
}

async fn scale(command: &Scale, now: &Now) -> Result<(), Failure> {
    let Scale { common, name, count } = command;
    let local = common.state.open(now)?;
    let pool = local.describe_pool(name).await.map_err(|error| failed(&error))?;
    if pool.capacity < *count {
        local.add_instances(&pool, count - pool.capacity).await.map_err(|error| failed(&error))?;
    } else if pool.capacity > *count {
        let mut all = local.instances(name).await.map_err(|error| failed(&error))?;
        all.sort_by_key(|instance| instance.id.as_str().parse::<u64>().unwrap_or(u64::MAX));
        let keep = usize::try_from(*count).unwrap_or(usize::MAX);
        let gone: Vec<InstanceId> = all.into_iter().skip(keep).map(|instance| instance.id).collect();
        local.remove_instances(name, &gone).await.map_err(|error| failed(&error))?;
    }
    print_pool(common, &local, name).await
}

async fn print_pool(common: &Common, local: &Local, name: &PoolName) -> Result<(), Failure> {
    let instances = local.instances(name).await.map_err(|error| failed(&error))?;
    let nodes: Vec<&str> = instances.iter().map(|instance| instance.node_name.as_str()).collect();
    let value = json!({"pool": name, "capacity": instances.len(), "nodes": nodes});
    answer::either(common.output, &value, |_| format!("pool `{name}`: {}\n", nodes.join(", ")))
}

async fn list(List { common }: &List, now: &Now) -> Result<(), Failure> {
    let pools = common.state.open(now)?.pools().await.map_err(|error| failed(&error))?;
    answer::either(common.output, &json!({"pools": pools}), |_| {
        let mut table = Table::new();
        table.load_style(NOTHING).set_header(["POOL", "MACHINES", "SIZE", "IMAGE"]);
        for pool in &pools {
            let image = image_id(&pool.recipe.image);
            table.add_row([pool.name.to_string(), pool.capacity.to_string(), pool.size.clone(), image]);
        }
        lines(&table)
    })
}

/// A table without trailing spaces.
pub(super) fn lines(table: &Table) -> String {
    table.lines().flat_map(|line| [line.trim_end().to_owned(), "\n".to_owned()]).collect()
}
