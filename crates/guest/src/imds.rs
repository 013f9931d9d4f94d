//! The metadata service.

use serde::Deserialize;

use crate::error::GuestError;
use crate::http::{Ask, Http};
use crate::ovf::OvfEnv;
use crate::retry::Rules;
use crate::wait::Wait;

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
    /// The machine's id.
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
    /// Its size.
    pub vm_size: String,
}

impl Imds {
    /// The service at a base, `http://host[:port]`. `chance` makes machines that start together ask apart.
    pub fn new(base: &str, chance: u64) -> Self {
        Self { base: base.trim_end_matches('/').to_owned(), http: Http::new(chance) }
    }

    /// What the service says of this machine.
    pub fn instance(&self, rules: Rules, wait: &dyn Wait) -> Result<Instance, GuestError> {
        let url = format!("{}/metadata/instance?api-version={VERSION}", self.base);
        let body = self.get(&url, rules, wait)?;
        instance(&body).map_err(|reason| GuestError::Answer { url, reason })
    }

    /// The user data as the service gives it, base64; nothing where the machine has none.
    pub fn user_data(&self, rules: Rules, wait: &dyn Wait) -> Result<Option<Vec<u8>>, GuestError> {
        let url = format!("{}/metadata/instance/compute/userData?api-version={VERSION}&format=text", self.base);
        let body = self.get(&url, rules, wait)?;
        Ok(Some(body.trim_ascii().to_vec()).filter(|body| !body.is_empty()))
    }

    /// What a machine that was started ahead is to be, once somebody asked for it.
    pub fn reprovision(&self, rules: Rules, wait: &dyn Wait) -> Result<OvfEnv, GuestError> {
        let url = format!("{}/metadata/reprovisiondata?api-version={REPROVISION_VERSION}", self.base);
        let body = self.get(&url, rules, wait)?;
        OvfEnv::parse(&body).map_err(|source| GuestError::Ovf { place: url, source })
    }

    fn get(&self, url: &str, rules: Rules, wait: &dyn Wait) -> Result<Vec<u8>, GuestError> {
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
    Ok(Instance {
        vm_id: compute.vm_id,
        name: compute.name,
        host_name: some(compute.os_profile.computer_name),
        user_name: some(compute.os_profile.admin_username),
        ssh_keys: compute.public_keys.into_iter().map(|key| key.key_data.trim().to_owned()).collect(),
        location: compute.location,
        vm_size: compute.vm_size,
    })
}
