//! Restoring the original recipe.

use kiln_kubernetes::OriginalRecipe;
use kiln_prototype::journal::Run;
use kiln_types::tags::RECIPE_TAG;
use kiln_types::{Factory, Pool, PoolName, ProtectedSettings, RecipeChange, SavedExtension, Tags};

use super::set_recipe;
use crate::event::RunEventKind;
use crate::{Context, Error};

/// Adds the protected settings of the extensions to restore: those that were given now, or those in the Secret that a run was started
/// with. Fails before anything changes if an extension would be restored without its command.
pub(super) async fn with_settings<F: Factory>(
    context: &Context<F>,
    pool: &Pool,
    mut saved: OriginalRecipe,
    given: &ProtectedSettings,
    runs: &[Run],
) -> Result<OriginalRecipe, Error> {
    let exists = |name: &str| pool.recipe.extensions.iter().any(|extension| extension.name.eq_ignore_ascii_case(name));
    let lost = |saved: &&mut SavedExtension| {
        saved.extension.loses_protected_settings()
            && saved.protected_settings.is_none()
            && !exists(&saved.extension.name)
    };
    let named = runs.iter().rev().find_map(|run| run.header.options.protected_settings_secret.as_deref());
    let mut recorded = None;
    for extension in saved.extensions.iter_mut().filter(lost) {
        let name = extension.extension.name.clone();
        if let (None, None, Some((namespace, secret))) =
            (given.get(&name), &recorded, named.and_then(|named| named.split_once('/')))
        {
            recorded = Some(context.cluster.protected_settings(&namespace.parse()?, secret).await?);
        }
        let settings = given.get(&name).or_else(|| recorded.as_ref()?.get(&name));
        let settings = settings.ok_or(Error::NoProtectedSettings { pool: pool.name.clone(), extension: name })?;
        extension.protected_settings = Some(settings.clone());
    }
    Ok(saved)
}

/// Restores a saved recipe: scripts first, then image and custom data in one write.
///
/// In between, a new node is a clone of the donor that runs its bootstrap script once more, which a script that survives a reboot
/// tolerates. The other order would create nodes from a bare image without any bootstrap.
pub(super) async fn restore<F: Factory>(
    context: &Context<F>,
    pool: &PoolName,
    saved: &OriginalRecipe,
) -> Result<(), Error> {
    let factory = &context.factory;
    let now = factory.describe_pool(pool).await.map_err(Error::cloud(format!("read scale set `{pool}`")))?;
    let exists = |name: &str| now.recipe.extensions.iter().any(|extension| extension.name.eq_ignore_ascii_case(name));
    for extension in saved.extensions.iter().filter(|saved| !exists(&saved.extension.name)) {
        let name = &extension.extension.name;
        let what = format!("restore extension `{name}` of `{pool}`");
        if extension.protected_settings.is_none() && extension.extension.may_have_hidden_settings {
            let note =
                format!("extension `{name}` may have had protected settings, which cannot be restored: check it");
            context.emit(pool, None, RunEventKind::Note(note)).await;
        }
        let accepted = factory.put_extension(pool, extension).await.map_err(Error::cloud(what.as_str()))?;
        context.await_operation(&what, &accepted).await?;
    }
    if saved.custom_data.is_none() {
        let note = "the custom data was not saved: new nodes keep the current one".to_owned();
        context.emit(pool, None, RunEventKind::Note(note)).await;
    }
    let change = RecipeChange { image: Some(saved.image.clone()), custom_data: saved.custom_data.clone() };
    set_recipe(context, pool, &change).await?;

    // The next run has to remove custom data and scripts again.
    let what = format!("write tags of `{pool}`");
    let now = factory.describe_pool(pool).await.map_err(Error::cloud(what.as_str()))?;
    if now.tags.get(RECIPE_TAG).is_some_and(|value| !value.is_empty()) {
        let tags = Tags::from([(RECIPE_TAG.to_owned(), String::new())]);
        let accepted = factory.tag_pool(&now, &tags).await.map_err(Error::cloud(what.as_str()))?;
        context.await_operation(&what, &accepted).await?;
    }
    Ok(())
}
