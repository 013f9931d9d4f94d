//! Implementation of the commands.

use kiln_aks_formats::Secret;
use kiln_azure::Azure;
use kiln_azure::login::Environment;
use kiln_bootstrap::launch::LaunchError;
use kiln_engine::launch::{self, Error};
use kiln_types::{ErrorClass, FactoryError, MachineState};
use serde_json::json;

use super::connection::Connection;
use super::show::{self, Progress};
use super::{Create, Delete, Gc, OwnerArgument, Template};
use crate::answer;
use crate::failure::Failure;
use crate::prototype::connect::Now;

type LaunchFailure = Error<<Azure as kiln_types::Machines>::Error>;

/// Chooses the exit code of an error.
fn failure(error: &LaunchFailure) -> Failure {
    let code = match error {
        Error::Inputs(_) | Error::NoOwner => 2,
        Error::OtherOwner { .. } => 3,
        Error::Cloud(cloud) if cloud.class() == ErrorClass::Precondition => 3,
        Error::Cloud(_) => 1,
    };
    Failure::chain(code, error)
}

fn inputs_failure(error: LaunchError) -> Failure {
    failure(&Error::Inputs(error))
}

pub(super) async fn template(
    connection: &Connection,
    verb: &Template,
    environment: &Environment,
    now: &Now,
) -> Result<(), Failure> {
    let resolved = verb.inputs.resolve(connection, environment, now).await?;
    let bootstrapper = verb.inputs.bootstrapper.bootstrapper();
    let template = launch::template(&resolved.inputs, bootstrapper, &resolved.image.id).map_err(inputs_failure)?;
    let document = json!({
        "bootstrapper": bootstrapper.name(),
        "customData": template.custom_data.expose(),
        "imageId": template.image_id,
        "imageSource": resolved.image.by,
        "tags": template.tags,
    });
    let text = serde_json::to_string_pretty(&document).map_err(Failure::failed)?;
    crate::bootstrap::emit::emit(&Secret::new(format!("{text}\n")), verb.out.as_deref())
}

pub(super) async fn create(
    connection: &Connection,
    verb: &Create,
    environment: &Environment,
    now: &Now,
) -> Result<(), Failure> {
    let resolved = verb.inputs.resolve(connection, environment, now).await?;
    let bootstrapper = verb.inputs.bootstrapper.bootstrapper();
    let template = launch::template(&resolved.inputs, bootstrapper, &resolved.image.id).map_err(inputs_failure)?;
    launch::owner(&resolved.inputs).map_err(|error| failure(&error))?;
    let azure = match resolved.azure {
        Some(azure) => azure,
        None => connection.azure_for(&resolved.inputs, environment, now).await?,
    };
    let at = now.as_ref()();
    let machine =
        launch::create(&azure, &resolved.inputs, &template, verb.name.clone(), at, &Progress).await.map_err(|error| {
            let failure = failure(&error);
            let owner = resolved.inputs.text("clusterName");
            let hint = format!(
                "run the same command again to complete the launch, or later `kiln launch gc --owner {owner}` to delete it"
            );
            if failure.code == 1 { failure.hint(hint) } else { failure }
        })?;
    let vm = match &machine.state {
        MachineState::Present { vm_id, .. } => vm_id.clone(),
        MachineState::Fragment => None,
    };
    let text = format!(
        "machine: {}\nVM ID: {}\nimage: {} (from {})\nresources:\n  {}\n",
        machine.name,
        vm.as_deref().unwrap_or("not assigned yet"),
        resolved.image.id,
        resolved.image.by,
        machine.parts.join("\n  ")
    );
    let document = json!({
        "name": machine.name, "vmId": vm, "imageId": resolved.image.id, "imageSource": resolved.image.by,
        "parts": machine.parts, "tags": machine.tags,
    });
    answer::either(connection.output, &document, |_| text)
}

pub(super) async fn list(
    connection: &Connection,
    verb: &OwnerArgument,
    environment: &Environment,
    now: &Now,
) -> Result<(), Failure> {
    let azure = connection.azure(environment, now).await?;
    let machines = launch::list(&azure, &verb.owner).await.map_err(|error| Failure::chain(1, &error))?;
    let (text, document) = show::machines(&verb.owner, &machines);
    answer::either(connection.output, &document, |_| text)
}

pub(super) async fn delete(
    connection: &Connection,
    verb: &Delete,
    environment: &Environment,
    now: &Now,
) -> Result<(), Failure> {
    let azure = connection.azure(environment, now).await?;
    show::progress(&format!("deleting machine {} with its resources", verb.name));
    let deleted = launch::delete(&azure, &verb.owner.owner, &verb.name).await.map_err(|error| failure(&error))?;
    let text = format!("{}: {}\n", verb.name, if deleted { "deleted" } else { "not found" });
    answer::either(connection.output, &json!({"name": verb.name, "deleted": deleted}), |_| text)
}

pub(super) async fn gc(
    connection: &Connection,
    verb: &Gc,
    environment: &Environment,
    now: &Now,
) -> Result<(), Failure> {
    let azure = connection.azure(environment, now).await?;
    let (owner, at) = (&verb.owner.owner, now.as_ref()());
    let collected = launch::collect(&azure, owner, at, verb.older_than.into(), verb.dry_run)
        .await
        .map_err(|error| Failure::chain(1, &error).hint("run the same command again to continue"))?;
    answer::either(connection.output, &collected, |all| show::collected(all, verb.dry_run))
}
