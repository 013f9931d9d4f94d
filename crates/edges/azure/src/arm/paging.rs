//! Lists that come in pages.

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::call::Call;
use super::client::Arm;
use super::error::Error;

/// A page of a list.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page<T> {
    value: Vec<T>,
    next_link: Option<String>,
}

impl Arm {
    /// A resource.
    pub(crate) async fn get<T: DeserializeOwned>(&self, call: &Call) -> Result<T, Error> {
        self.send(call).await?.read()
    }

    /// A resource that may not exist.
    pub(crate) async fn find<T: DeserializeOwned>(&self, call: &Call) -> Result<Option<T>, Error> {
        match self.send(call).await {
            Ok(answer) => answer.read().map(Some),
            Err(error) if kiln_types::FactoryError::not_found(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// All items of a list.
    pub(crate) async fn list<T: DeserializeOwned>(&self, call: &Call) -> Result<Vec<T>, Error> {
        let mut page: Page<T> = self.get(call).await?;
        let mut items = page.value;
        while let Some(link) = page.next_link.filter(|link| !link.is_empty()) {
            page = self.follow(&link).await?.read()?;
            items.append(&mut page.value);
        }
        Ok(items)
    }
}
