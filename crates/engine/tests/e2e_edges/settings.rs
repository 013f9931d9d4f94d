//! Protected settings of script extensions, which Azure never returns.

use k8s_openapi::api::core::v1::Secret;
use kiln_engine::{Error, RunEnd, rollback, update};
use kiln_prototype::journal::Outcome;
use kiln_prototype::rollback::{RollbackRequest, RollbackTarget};
use kiln_sim_azure::Speed;
use kiln_types::ProtectedSettings;
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::{Value, json};

use crate::world::{POOL, World, WorldBuilder, pool_name, request};

const COMMAND: &str = "/opt/azure/containers/provision.sh";

async fn world_after_a_run(secret: Option<&str>) -> World {
    let world = WorldBuilder { speed: Speed::Instant, ..WorldBuilder::new() }.start().await;
    let mut request = request(1);
    request.options.protected_settings_secret = secret.map(str::to_owned);
    let end = Box::pin(update(&world.quiet(), &request)).await.unwrap().end;
    assert!(matches!(end, RunEnd::Closed(Outcome::Completed { .. })), "{end}");
    assert_eq!(script(&world), None, "the run removes the script");
    world
}

/// The script extension of the pool as Azure stores it, with the settings that no client can read.
fn script(world: &World) -> Option<Value> {
    let stored = world.sim.stored();
    let (_, pool) = stored.iter().find(|(id, _)| id.ends_with(&format!("/{POOL}"))).unwrap();
    let extensions = pool["properties"]["virtualMachineProfile"]["extensionProfile"]["extensions"].as_array().unwrap();
    extensions.iter().find(|extension| extension["name"] == "vmssCSE").cloned()
}

async fn roll_back(world: &World, protected_settings: ProtectedSettings) -> Result<(), Error> {
    let request = RollbackRequest {
        to: RollbackTarget::Original,
        delete: false,
        reason: "test".to_owned(),
        after: None,
        who: "alice".to_owned(),
        at: "2026-11-15T13:00:00Z".parse().unwrap(),
        protected_settings,
    };
    Box::pin(rollback(&world.quiet(), Some(&pool_name()), &request, false)).await.map(drop)
}

/// The protected settings of the pool's script.
pub(crate) fn given() -> ProtectedSettings {
    ProtectedSettings::parse(&json!({"vmssCSE": {"commandToExecute": COMMAND}}).to_string()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn run_that_would_lose_the_command_of_a_script_is_refused() {
    let world = WorldBuilder { speed: Speed::Instant, ..WorldBuilder::new() }.start().await;
    let mut request = request(1);
    request.options.protected_settings_of.clear();
    let end = Box::pin(update(&world.quiet(), &request)).await.unwrap().end;
    let RunEnd::Refused(reasons) = &end else { panic!("{end}") };
    assert!(reasons[0].contains("extension `vmssCSE`") && reasons[0].contains("--protected-settings"), "{reasons:?}");
    assert_eq!(world.wire.writes(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn original_script_is_restored_with_its_command() {
    let world = world_after_a_run(None).await;
    let writes = world.wire.writes().len();
    let error = roll_back(&world, ProtectedSettings::default()).await.unwrap_err();
    assert!(matches!(&error, Error::NoProtectedSettings { extension, .. } if extension == "vmssCSE"), "{error}");
    assert_eq!(world.wire.writes().len(), writes, "a rollback without the command changes nothing");

    roll_back(&world, given()).await.unwrap();
    assert_eq!(script(&world).unwrap()["properties"]["protectedSettings"], json!({"commandToExecute": COMMAND}));
    // New nodes are created from the bare image again, which needs the script.
    world.sim.scale(POOL, 4).unwrap();
    world.until_ready().await;
}

#[tokio::test(start_paused = true)]
async fn settings_in_a_secret_are_read_again_for_the_rollback_and_never_stored() {
    let world = world_after_a_run(Some("kiln-system/settings")).await;
    let client = Client::new(world.server.service(), "kiln-system");
    let secrets: Api<Secret> = Api::default_namespaced(client);
    let settings = json!({"commandToExecute": COMMAND}).to_string();
    let secret = json!({"metadata": {"name": "settings"}, "stringData": {"vmssCSE": settings}});
    secrets.create(&PostParams::default(), &serde_json::from_value(secret).unwrap()).await.unwrap();

    roll_back(&world, ProtectedSettings::default()).await.unwrap();
    assert_eq!(script(&world).unwrap()["properties"]["protectedSettings"], json!({"commandToExecute": COMMAND}));
    let runs = world.quiet().runs(&pool_name()).await.unwrap();
    let journal: Vec<String> = runs.iter().map(|run| serde_json::to_string(&run.header).unwrap()).collect();
    assert!(journal[0].contains("kiln-system/settings") && !journal[0].contains(COMMAND), "{journal:?}");
    let original = secrets.get(&format!("kiln-original-{POOL}")).await.unwrap();
    let original = String::from_utf8(original.data.unwrap().remove("original.json").unwrap().0).unwrap();
    assert!(!original.contains("commandToExecute"), "{original}");
}
