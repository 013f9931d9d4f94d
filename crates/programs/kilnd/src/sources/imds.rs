//! The metadata service.

use serde::Deserialize;

use crate::sources::error::Error;
use crate::sources::http::{Http, HttpRequest};
use crate::sources::ovf::OvfEnv;
use crate::sources::retry::Rules;
use crate::sources::wait::Wait;

/// The first API version with `userData` and `osProfile` in all regions.
const VERSION: &str = "2021-02-01";
/// The API version of `reprovisiondata`.
const REPROVISION_VERSION: &str = "2019-06-01";

/// A client of the metadata service.
#[derive(Clone, Debug)]
pub struct Imds {
    base: String,
    http: Http,
}

/// Metadata of this machine, as far as kilnd uses it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Instance {
    pub vm_id: String,
    /// The name of the VM in Azure.
    pub name: String,
    /// The computer name of the OS profile.
    pub host_name: Option<String>,
    /// The admin user.
    pub user_name: Option<String>,
    /// Public keys of the admin user.
    pub ssh_keys: Vec<String>,
    pub location: String,
    pub vm_size: String,
    /// The version of the image of the OS disk, if known.
    pub image_version: Option<String>,
}

impl Imds {
    /// A client for `http://host[:port]`. `seed` spreads the retries of machines that start together.
    pub fn new(base: &str, seed: u64) -> Self {
        Self { base: base.trim_end_matches('/').to_owned(), http: Http::new(seed) }
    }

    /// The metadata of this machine.
    pub fn instance(&self, rules: Rules, wait: &dyn Wait) -> Result<Instance, Error> {
        let url = format!("{}/metadata/instance?api-version={VERSION}", self.base);
        let body = self.get(&url, rules, wait)?;
        instance(&body).map_err(|reason| Error::Response { url, reason })
    }

    /// The user data in base64; none if there is none.
    pub fn user_data(&self, rules: Rules, wait: &dyn Wait) -> Result<Option<Vec<u8>>, Error> {
        let url = format!("{}/metadata/instance/compute/userData?api-version={VERSION}&format=text", self.base);
        let body = self.get(&url, rules, wait)?;
        Ok(Some(body.trim_ascii().to_vec()).filter(|body| !body.is_empty()))
    }

    /// The provisioning data of a preprovisioned machine, once it is assigned.
    pub fn reprovision(&self, rules: Rules, wait: &dyn Wait) -> Result<OvfEnv, Error> {
        let url = format!("{}/metadata/reprovisiondata?api-version={REPROVISION_VERSION}", self.base);
        let body = self.get(&url, rules, wait)?;
        OvfEnv::parse(&body).map_err(|source| Error::Ovf { origin: url, source })
    }

    fn get(&self, url: &str, rules: Rules, wait: &dyn Wait) -> Result<Vec<u8>, Error> {
        let request = HttpRequest { url: url.to_owned(), headers: &[("Metadata", "true")], body: None };
        self.http.request(&request, rules, wait)
    }
}

fn instance(body: &[u8]) -> Result<Instance, String> {
    #[derive(Deserialize)]
    struct Response {
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
    // Missing values are null, empty or absent.
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
    let Response { compute } = serde_json::from_slice(body).map_err(|error| error.to_string())?;
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

/// The version in a gallery image version id.
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
    fn image_version_comes_from_the_gallery_or_the_marketplace() {
        let id =
            "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/galleries/a/images/b/versions/2026.11.15";
        assert_eq!(version(&format!(r#"{{"id":"{id}","version":""}}"#)).as_deref(), Some("2026.11.15"));
        let marketplace = r#"{"id":"","publisher":"Canonical","version":"22.04.202601010"}"#;
        assert_eq!(version(marketplace).as_deref(), Some("22.04.202601010"));
    }

    #[test]
    fn image_without_a_version_has_none() {
        let managed = r#"{"id":"/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/images/mine"}"#;
        for image in [managed, "{}", r#"{"id":null,"version":null}"#, r#"{"version":"latest"}"#] {
            assert_eq!(version(image), None, "{image}");
        }
        assert_eq!(instance(br#"{"compute":{}}"#).expect("read").image_version, None);
    }
}
