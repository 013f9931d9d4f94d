//! What each command does.

use kiln_aks_formats::Secret;
use kiln_azure::Azure;
use kiln_azure::login::Environment;
use kiln_bootstrap::launch::LaunchError;
use kiln_engine::launch::{self, Error};
use kiln_types::{ErrorClass, FactoryError, MachineState};
use serde_json::json;

use super::place::Place;
use super::show::{self, Progress};
use super::{Create, Delete, Gc, Owned, Template};
use crate::answer;
use crate::failure::Failure;
use crate::prototype::connect::Now;

type LaunchFailure = Error<<Azure as kiln_types::Machines>::Error>;

/// The exit code of what went wrong.
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
    place: &Place,
    verb: &Template,
    environment: &Environment,
    now: &Now,
) -> Result<(), Failure> {
    let found = verb.inputs.find(place, environment, now).await?;
    let bootstrapper = verb.inputs.bootstrapper.bootstrapper();
    let made = launch::template(&found.inputs, bootstrapper, &found.image.id).map_err(inputs_failure)?;
    let document = json!({
        "bootstrapper": bootstrapper.name(),
        "customData": made.custom_data.expose(),
        "imageId": made.image_id,
        "imageBy": found.image.by,
        "tags": made.tags,
    });
    let text = serde_json::to_string_pretty(&document).map_err(Failure::failed)?;
    crate::bootstrap::emit::emit(&Secret::new(format!("{text}\n")), verb.out.as_deref())
}

pub(super) async fn create(place: &Place, verb: &Create, environment: &Environment, now: &Now) -> Result<(), Failure> {
    let found = verb.inputs.find(place, environment, now).await?;
    let bootstrapper = verb.inputs.bootstrapper.bootstrapper();
    let made = launch::template(&found.inputs, bootstrapper, &found.image.id).map_err(inputs_failure)?;
    launch::owner(&found.inputs).map_err(|error| failure(&error))?;
    let azure = match found.azure {
        Some(azure) => azure,
        None => place.azure_of(&found.inputs, environment, now).await?,
    };
    let at = now.as_ref()();
    let machine =
        launch::create(&azure, &found.inputs, &made, verb.name.clone(), at, &Progress).await.map_err(|error| {
            let failure = failure(&error);
            let owner = found.inputs.text("clusterName");
            let hint = format!(
                "the same command completes what was begun; `kiln launch gc --owner {owner}` removes it once it is old enough"
            );
            if failure.code == 1 { failure.hint(hint) } else { failure }
        })?;
    let vm = match &machine.state {
        MachineState::Present { vm_id, .. } => vm_id.clone(),
        MachineState::Fragment => None,
    };
    let text = format!(
        "machine: {}\nvm id: {}\nimage: {} (by {})\nparts:\n  {}\n",
        machine.name,
        vm.as_deref().unwrap_or("not given yet"),
        found.image.id,
        found.image.by,
        machine.parts.join("\n  ")
    );
    let document = json!({
        "name": machine.name, "vmId": vm, "imageId": found.image.id, "imageBy": found.image.by,
        "parts": machine.parts, "tags": machine.tags,
    });
    answer::either(place.output, &document, |_| text)
}

pub(super) async fn list(place: &Place, verb: &Owned, environment: &Environment, now: &Now) -> Result<(), Failure> {
    let azure = place.azure(environment, now).await?;
    let machines = launch::list(&azure, &verb.owner).await.map_err(|error| Failure::chain(1, &error))?;
    let (text, document) = show::machines(&verb.owner, &machines);
    answer::either(place.output, &document, |_| text)
}

pub(super) async fn delete(place: &Place, verb: &Delete, environment: &Environment, now: &Now) -> Result<(), Failure> {
    let azure = place.azure(environment, now).await?;
    show::progress(&format!("{}: deletes it with all its parts", verb.name));
    let was = launch::delete(&azure, &verb.owned.owner, &verb.name).await.map_err(|error| failure(&error))?;
    let text = format!("{}: {}\n", verb.name, if was { "deleted" } else { "was not there" });
    answer::either(place.output, &json!({"name": verb.name, "deleted": was}), |_| text)
}

pub(super) async fn gc(place: &Place, verb: &Gc, environment: &Environment, now: &Now) -> Result<(), Failure> {
    let azure = place.azure(environment, now).await?;
    let (owner, at) = (&verb.owned.owner, now.as_ref()());
    let collected = launch::collect(&azure, owner, at, verb.older_than.into(), verb.dry_run)
        .await
        .map_err(|error| Failure::chain(1, &error).hint("the same command goes on where this one ended"))?;
    answer::either(place.output, &collected, |all| show::collected(all, verb.dry_run))
}
