//! `kiln local pool`: pools of machines with the same recipe.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use comfy_table::Table;
use comfy_table::presets::NOTHING;
use kiln_local::{PoolSpec, Size, ids};
use kiln_types::{Factory as _, InstanceId, PoolName, RecipeChange, Revision, Tags};
use serde_json::json;

use super::Common;
use super::factory::{Local, failed, image_id, user_data};
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
            write_user_data(&user_data(&local.store().folder(), name.as_str()), None)?;
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
    let new_user_data = read(&command.user_data)?;
    let local = common.state.open(now)?;
    let image = if image.starts_with('/') { image.clone() } else { ids::image_id(image) };
    let spec =
        PoolSpec { name: name.clone(), image, capacity: *count, size: *size, custom_data, tags: Tags::default() };
    let path = user_data(&local.store().folder(), name.as_str());
    let known = is_known(&local, name).await?;
    if !known {
        // Written before the machines start, because they read it at once. It replaces the file of an earlier pool with this name.
        write_user_data(&path, new_user_data.as_deref())?;
    }
    if let Err(error) = local.create_pool(&spec).await {
        if !known && !is_known(&local, name).await? {
            write_user_data(&path, None)?;
        }
        return Err(failed(&error));
    }
    // `create_pool` accepted an existing pool, so the command was repeated. New user data replaces the old; without `--user-data` it stays.
    if known && new_user_data.is_some() {
        write_user_data(&path, new_user_data.as_deref())?;
    }
    print_pool(common, &local, name).await
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

async fn is_known(local: &Local, name: &PoolName) -> Result<bool, Failure> {
    Ok(local.pools().await.map_err(|error| failed(&error))?.iter().any(|pool| pool.name == *name))
}

/// Replaces or removes the user data of a pool. It may contain secrets.
fn write_user_data(path: &Path, text: Option<&str>) -> Result<(), Failure> {
    let result = match text {
        Some(text) => replace(path, text),
        None => fs::remove_file(path),
    };
    match result {
        Err(error) if error.kind() != io::ErrorKind::NotFound || text.is_some() => {
            Err(Failure::failed(format_args!("{}: {error}", path.display())))
        }
        _ => Ok(()),
    }
}

fn replace(path: &Path, text: &str) -> io::Result<()> {
    let folder = path.parent().unwrap_or(path);
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let new = temporary(path);
    let _ = fs::remove_file(&new);
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    file.write_all(text.as_bytes())?;
    file.sync_data()?;
    fs::rename(&new, path)
}

/// The temporary file of a pool's user data. Each pool has its own, and no pool name starts with a dot.
fn temporary(path: &Path) -> PathBuf {
    let pool = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{pool}.new"))
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn temporary_files_of_two_pools_differ() {
        let path = |pool| temporary(&user_data(Path::new("/state"), pool));
        assert_eq!(path("few"), Path::new("/state/user-data/.few.new"));
        assert_ne!(path("few"), path("many"));
    }

    #[test]
    fn user_data_is_private_and_can_be_removed() {
        let state = tempfile::tempdir().unwrap();
        let path = user_data(state.path(), "few");
        write_user_data(&path, None).unwrap();
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "from an earlier pool").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        write_user_data(&path, Some("hunter2")).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "hunter2");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        write_user_data(&path, None).unwrap();
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 0);
    }
}
