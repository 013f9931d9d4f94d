//! Lists, page by page.

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::call::Call;
use super::client::Arm;
use super::error::Error;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Page<T> {
    value: Vec<T>,
    next_link: Option<String>,
}

impl Arm {
    /// Reads a resource.
    pub(crate) async fn get<T: DeserializeOwned>(&self, call: &Call) -> Result<T, Error> {
        self.send(call).await?.read()
    }

    /// Reads a resource that may not exist.
    pub(crate) async fn find<T: DeserializeOwned>(&self, call: &Call) -> Result<Option<T>, Error> {
        match self.send(call).await {
            Ok(answer) => answer.read().map(Some),
            Err(error) if kiln_types::FactoryError::not_found(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reads all items of a list.
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
