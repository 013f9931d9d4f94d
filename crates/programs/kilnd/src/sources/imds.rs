//! The metadata service.

use serde::Deserialize;

use crate::sources::error::Error;
use crate::sources::http::{Ask, Http};
use crate::sources::ovf::OvfEnv;
use crate::sources::retry::Rules;
use crate::sources::wait::Wait;

/// The first version with `userData` and `osProfile` that all regions have.
const VERSION: &str = "2021-02-01";
/// The version of the answer that a machine which was started ahead waits for.
const REPROVISION_VERSION: &str = "2019-06-01";

/// The metadata service of this machine.
#[derive(Clone, Debug)]
pub struct Imds {
    base: String,
    http: Http,
}

/// What the metadata service says of this machine, as far as kiln asks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Instance {
    pub vm_id: String,
    /// Its name in Azure.
    pub name: String,
    /// The name that it should give itself.
    pub host_name: Option<String>,
    /// The first user.
    pub user_name: Option<String>,
    /// Public keys of the first user.
    pub ssh_keys: Vec<String>,
    /// Where it is.
    pub location: String,
    pub vm_size: String,
    /// The version of the image that its disk was made of, where the platform says it.
    pub image_version: Option<String>,
}

impl Imds {
    /// The service at a base, `http://host[:port]`. `chance` makes machines that start together ask apart.
    pub fn new(base: &str, chance: u64) -> Self {
        Self { base: base.trim_end_matches('/').to_owned(), http: Http::new(chance) }
    }

    /// What the service says of this machine.
    pub fn instance(&self, rules: Rules, wait: &dyn Wait) -> Result<Instance, Error> {
        let url = format!("{}/metadata/instance?api-version={VERSION}", self.base);
        let body = self.get(&url, rules, wait)?;
        instance(&body).map_err(|reason| Error::Answer { url, reason })
    }

    /// The user data as the service gives it, base64; nothing where the machine has none.
    pub fn user_data(&self, rules: Rules, wait: &dyn Wait) -> Result<Option<Vec<u8>>, Error> {
        let url = format!("{}/metadata/instance/compute/userData?api-version={VERSION}&format=text", self.base);
        let body = self.get(&url, rules, wait)?;
        Ok(Some(body.trim_ascii().to_vec()).filter(|body| !body.is_empty()))
    }

    /// What a machine that was started ahead is to be, once somebody asked for it.
    pub fn reprovision(&self, rules: Rules, wait: &dyn Wait) -> Result<OvfEnv, Error> {
        let url = format!("{}/metadata/reprovisiondata?api-version={REPROVISION_VERSION}", self.base);
        let body = self.get(&url, rules, wait)?;
        OvfEnv::parse(&body).map_err(|source| Error::Ovf { place: url, source })
    }

    fn get(&self, url: &str, rules: Rules, wait: &dyn Wait) -> Result<Vec<u8>, Error> {
        let ask = Ask { url: url.to_owned(), headers: &[("Metadata", "true")], body: None };
        self.http.ask(&ask, rules, wait)
    }
}

fn instance(body: &[u8]) -> Result<Instance, String> {
    #[derive(Deserialize)]
    struct Answer {
        compute: Compute,
    }
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct Compute {
        vm_id: String,
        name: String,
        location: String,
        vm_size: String,
        os_profile: OsProfile,
        public_keys: Vec<Key>,
        storage_profile: StorageProfile,
    }
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct StorageProfile {
        image_reference: Image,
    }
    // What an image does not have is null, empty or not there.
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Image {
        id: Option<String>,
        version: Option<String>,
    }
    #[derive(Default, Deserialize)]
    #[serde(rename_all = "camelCase", default)]
    struct OsProfile {
        admin_username: String,
        computer_name: String,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Key {
        key_data: String,
    }
    let Answer { compute } = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    let some = |text: String| Some(text).filter(|text| !text.is_empty());
    let image = compute.storage_profile.image_reference;
    let exact = |version: &String| !version.is_empty() && !version.eq_ignore_ascii_case("latest");
    let image_version = image.id.as_deref().and_then(version_of).or(image.version).filter(exact);
    Ok(Instance {
        vm_id: compute.vm_id,
        name: compute.name,
        host_name: some(compute.os_profile.computer_name),
        user_name: some(compute.os_profile.admin_username),
        ssh_keys: compute.public_keys.into_iter().map(|key| key.key_data.trim().to_owned()).collect(),
        location: compute.location,
        vm_size: compute.vm_size,
        image_version,
    })
}

/// The version in the id of an image version of a gallery.
fn version_of(id: &str) -> Option<String> {
    let mut segments = id.trim_end_matches('/').rsplit('/');
    let version = segments.next()?;
    segments.next().filter(|kind| kind.eq_ignore_ascii_case("versions")).map(|_| version.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(image: &str) -> Option<String> {
        let body = format!(r#"{{"compute":{{"storageProfile":{{"imageReference":{image}}}}}}}"#);
        instance(body.as_bytes()).expect("read").image_version
    }

    #[test]
    fn the_version_of_an_image_is_that_of_the_gallery_else_that_of_the_market() {
        let id =
            "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/galleries/a/images/b/versions/2026.11.15";
        assert_eq!(version(&format!(r#"{{"id":"{id}","version":""}}"#)).as_deref(), Some("2026.11.15"));
        let market = r#"{"id":"","publisher":"Canonical","version":"22.04.202601010"}"#;
        assert_eq!(version(market).as_deref(), Some("22.04.202601010"));
    }

    #[test]
    fn an_image_without_a_version_has_none() {
        let managed = r#"{"id":"/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/images/mine"}"#;
        for image in [managed, "{}", r#"{"id":null,"version":null}"#, r#"{"version":"latest"}"#] {
            assert_eq!(version(image), None, "{image}");
        }
        assert_eq!(instance(br#"{"compute":{}}"#).expect("read").image_version, None);
    }
}
