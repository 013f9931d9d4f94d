//! The recipe before the first run, put back.

use kiln_kubernetes::OriginalRecipe;
use kiln_prototype::names::RECIPE_TAG;
use kiln_types::{Factory, PoolName, RecipeChange, Tags};

use crate::rollback::set_recipe;
use crate::news::RunEventKind;
use crate::side::Error;
use crate::{Context, Error};

/// Puts a saved recipe back: scripts first, then image and custom data in one write.
///
/// In between, a new node is a copy of the donor that runs its bootstrap script once more, which scripts that survive a reboot bear. The
/// other order would make nodes of a bare image that nobody bootstraps.
pub(crate) async fn put_back<F: Factory>(
    context: &Context<F>,
    pool: &PoolName,
    saved: &OriginalRecipe,
) -> Result<(), Error> {
    let factory = &context.factory;
    let now = factory.describe_pool(pool).await.map_err(Error::cloud(format!("read scale set `{pool}`")))?;
    let there = |name: &str| now.recipe.extensions.iter().any(|extension| extension.name.eq_ignore_ascii_case(name));
    for extension in saved.extensions.iter().filter(|saved| !there(&saved.extension.name)) {
        let name = &extension.extension.name;
        let what = format!("put extension `{name}` back into `{pool}`");
        if extension.protected_settings.is_none() && extension.extension.may_have_hidden_settings {
            let note = format!("extension `{name}` may have had settings that Azure never shows: look at it");
            context.tell(pool, None, RunEventKind::Note(note)).await;
        }
        let asked = factory.put_extension(pool, extension).await.map_err(Error::cloud(what.as_str()))?;
        context.settle(&what, &asked).await?;
    }
    if saved.custom_data.is_none() {
        let note = "the custom data was not saved: new nodes get what they get now".to_owned();
        context.tell(pool, None, RunEventKind::Note(note)).await;
    }
    let change = RecipeChange { image: Some(saved.image.clone()), custom_data: saved.custom_data.clone() };
    set_recipe(context, pool, &change).await?;

    // The next run has to take custom data and scripts out again.
    let what = format!("write tags of `{pool}`");
    let now = factory.describe_pool(pool).await.map_err(Error::cloud(what.as_str()))?;
    if now.tags.get(RECIPE_TAG).is_some_and(|value| !value.is_empty()) {
        let tags = Tags::from([(RECIPE_TAG.to_owned(), String::new())]);
        let asked = factory.tag_pool(&now, &tags).await.map_err(Error::cloud(what.as_str()))?;
        context.settle(&what, &asked).await?;
    }
    Ok(())
}
