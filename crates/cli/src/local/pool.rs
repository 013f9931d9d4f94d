//! `kiln local pool`: machines that one recipe makes.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use comfy_table::Table;
use comfy_table::presets::NOTHING;
use kiln_cloud::{Factory as _, InstanceId, PoolName, Tags};
use kiln_local::{PoolSpec, Size, ids};
use serde_json::json;

use super::Common;
use super::factory::{Local, failed, image_id, user_data};
use crate::answer;
use crate::failure::Failure;
use crate::prototype::connect::Now;

const CREATE: &str = "Examples:
  kiln local pool create nodes --image debian --count 2 --user-data node.json
  kiln local pool create vms --image debian-vm --size 2x2048

User data is what machines may read of the metadata service for as long as they live, the place for a NodeConfig. Custom data is on a medium
in their drive at first boot, and is what `kiln prototype` takes away from a pool whose image needs it no more.";

#[derive(Debug, Subcommand)]
pub(crate) enum Pool {
    /// Make a pool and switch its machines on
    Create(Create),
    /// All pools
    List(List),
    /// Make a pool larger or smaller
    Scale(Scale),
    /// Remove a pool with its machines and their disks
    Delete(Delete),
}

#[derive(Debug, Args)]
#[command(after_help = CREATE)]
pub(crate) struct Create {
    #[command(flatten)]
    common: Common,
    /// Name of the pool; its nodes are named after it
    name: PoolName,
    /// Name of an imported image
    #[arg(long, value_name = "NAME")]
    image: String,
    /// How many machines
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    count: u32,
    /// Processors and MiB of memory of a virtual machine
    #[arg(long, value_name = "CORESxMIB", default_value = "1x1024")]
    size: Size,
    /// What machines read of the metadata service
    #[arg(long, value_name = "FILE")]
    user_data: Option<PathBuf>,
    /// What machines read at their first boot
    #[arg(long, value_name = "FILE")]
    custom_data: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct List {
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  kiln local pool scale nodes 3\n\nMachines with the highest numbers go first.")]
pub(crate) struct Scale {
    #[command(flatten)]
    common: Common,
    /// Name of the pool
    name: PoolName,
    /// How many machines it is to have
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
        Pool::List(command) => list(command, now).await,
        Pool::Scale(command) => scale(command, now).await,
        Pool::Delete(Delete { common, name }) => {
            let local = common.state.open(now)?;
            local.delete_pool(name).await.map_err(|error| failed(&error))?;
            // It may never have had any.
            let _ = fs::remove_file(user_data(&local.store().folder(), name.as_str()));
            answer::either(common.output, &json!({"pool": name}), |_| format!("pool `{name}` is gone\n"))
        }
    }
}

async fn create(command: &Create, now: &Now) -> Result<(), Failure> {
    let Create { common, name, image, count, size, .. } = command;
    let read = |path: &Option<PathBuf>| match path {
        Some(path) => fs::read_to_string(path).map(Some).map_err(|error| Failure::file(path, error)),
        None => Ok(None),
    };
    let custom_data = read(&command.custom_data)?.map(kiln_cloud::SecretText::new);
    let told = read(&command.user_data)?;
    let local = common.state.open(now)?;
    if let Some(told) = told {
        // Before the machines, which ask for it at once.
        keep(&user_data(&local.store().folder(), name.as_str()), &told)?;
    }
    let image = if image.starts_with('/') { image.clone() } else { ids::of_image(image) };
    let spec =
        PoolSpec { name: name.clone(), image, capacity: *count, size: *size, custom_data, tags: Tags::default() };
    local.create_pool(&spec).await.map_err(|error| failed(&error))?;
    shown(common, &local, name).await
}

fn keep(path: &Path, text: &str) -> Result<(), Failure> {
    let folder = path.parent().unwrap_or(path);
    let mut options = fs::OpenOptions::new();
    let options = options.write(true).create(true).truncate(true).mode(0o600);
    let kept = fs::create_dir_all(folder)
        .and_then(|()| options.open(path))
        .and_then(|mut file| file.write_all(text.as_bytes()));
    kept.map_err(|error| Failure::failed(format_args!("{}: {error}", path.display())))
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
    shown(common, &local, name).await
}

async fn shown(common: &Common, local: &Local, name: &PoolName) -> Result<(), Failure> {
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

/// A table without the spaces at the ends of its lines.
pub(super) fn lines(table: &Table) -> String {
    table.lines().flat_map(|line| [line.trim_end().to_owned(), "\n".to_owned()]).collect()
}
