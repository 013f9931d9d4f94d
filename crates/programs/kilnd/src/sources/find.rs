//! Finds the document of a machine that has none yet.

use std::fmt;
use std::time::Duration;

use kiln_types::SecretBytes;
use serde::{Deserialize, Serialize};

use crate::log::error_line;
use crate::sources::credential::system_credential;
use crate::sources::decode::{self, DecodeError, Decoded, decode};
use crate::sources::endpoints::Endpoints;
use crate::sources::error::Error;
use crate::sources::imds::Imds;
use crate::sources::media::ovf_env;
use crate::sources::media_copy::ovf_env_copy;
use crate::sources::ovf::OvfEnv;
use crate::sources::retry::Rules;
use crate::sources::wait::Wait;

/// The system credential that contains a document.
const CREDENTIAL: &str = "kiln.node-config";
/// How long to wait for provisioning media if no other source has a document: the driver of the drive may load late. The wait comes after
/// the metadata service was queried, so that machines without media do not pay for it.
const MEDIA_TIMEOUT: Duration = Duration::from_secs(5);
/// Poll interval while waiting for the media.
const MEDIA_POLL: Duration = Duration::from_millis(250);
/// Poll interval of a preprovisioned machine while it waits for its assignment.
const REPROVISION_POLL: Duration = Duration::from_secs(1);

/// A source of documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Source {
    /// A systemd system credential.
    SystemCredential,
    /// The custom data on the provisioning media.
    CustomData,
    /// The user data from the metadata service.
    UserData,
}

/// A source that had no document, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Lookup {
    pub source: Source,
    pub result: String,
}

/// A document, and what else its source said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundDocument {
    pub document: Vec<u8>,
    /// The join credential in the custom data, also if the document itself is in the user data.
    pub credential: Option<SecretBytes>,
    pub source: Source,
    /// Sources that were tried before.
    pub lookups: Vec<Lookup>,
    /// The content of the provisioning media, if there are any.
    pub ovf: Option<OvfEnv>,
}

impl FoundDocument {
    fn new(
        Decoded { document, credential }: Decoded,
        source: Source,
        lookups: Vec<Lookup>,
        ovf: Option<OvfEnv>,
    ) -> Self {
        Self { document, credential, source, lookups, ovf }
    }
}

/// No source has a document.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no document found ({})\nhint: put a NodeConfig into the user data of the machine", summary(.lookups))]
pub struct NoDocument {
    pub lookups: Vec<Lookup>,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SystemCredential => "system credential",
            Self::CustomData => "custom data",
            Self::UserData => "user data",
        })
    }
}

fn summary(lookups: &[Lookup]) -> String {
    lookups.iter().map(|lookup| format!("{}: {}", lookup.source, lookup.result)).collect::<Vec<_>>().join("; ")
}

/// Finds a document: first in the sources that need no network, then in the metadata service.
///
/// A preprovisioned machine has placeholders on its provisioning media. It waits here, without a limit, until Azure assigns it.
pub fn find(endpoints: &Endpoints, rules: Rules, wait: &dyn Wait, seed: u64) -> Result<FoundDocument, NoDocument> {
    find_announced(endpoints, rules, wait, seed, &mut || true)
}

/// The same. Before each poll of a preprovisioned machine, `announce` reports to the platform that it can be assigned, until it returns true:
/// Azure does not assign a machine that has not reported.
pub fn find_announced(
    endpoints: &Endpoints,
    rules: Rules,
    wait: &dyn Wait,
    seed: u64,
    announce: &mut dyn FnMut() -> bool,
) -> Result<FoundDocument, NoDocument> {
    let mut lookups = Vec::new();
    if let Some(decoded) = credential(endpoints, &mut lookups) {
        return Ok(FoundDocument::new(decoded, Source::SystemCredential, lookups, None));
    }
    let imds = Imds::new(&endpoints.imds, seed);
    let mut ovf = media(endpoints, &imds, wait, &mut lookups, announce);
    if let Some(decoded) = custom_data(ovf.as_ref(), &mut lookups) {
        return Ok(FoundDocument::new(decoded, Source::CustomData, lookups, ovf));
    }
    let started = wait.now();
    // A service that does not answer must not hide media that appear late.
    let first_rules = if ovf.is_none() { rules.within(MEDIA_TIMEOUT) } else { rules };
    let mut answer = imds.user_data(first_rules, wait);
    if ovf.is_none() && !matches!(answer, Ok(Some(_))) {
        loop {
            ovf = media(endpoints, &imds, wait, &mut Vec::new(), announce);
            if ovf.is_some() || wait.now().saturating_sub(started) >= MEDIA_TIMEOUT {
                break;
            }
            wait.sleep(MEDIA_POLL);
        }
        if let Some(decoded) = custom_data(ovf.as_ref(), &mut lookups) {
            return Ok(FoundDocument::new(decoded, Source::CustomData, lookups, ovf));
        }
        if matches!(answer, Err(Error::Deadline { .. })) {
            answer = imds.user_data(rules, wait);
        }
    }
    match answer {
        // Every pod can read user data, so it must not contain a credential.
        Ok(Some(bytes)) => match decode(&bytes).and_then(Decoded::public) {
            Ok(document) => {
                let custom_data = ovf.as_ref().and_then(|ovf| ovf.custom_data.as_ref());
                let credential = custom_data.and_then(|bytes| decode::credential(bytes.expose()));
                return Ok(FoundDocument::new(Decoded { document, credential }, Source::UserData, lookups, ovf));
            }
            Err(error) => note(&mut lookups, Source::UserData, &error),
        },
        Ok(None) => note(&mut lookups, Source::UserData, &DecodeError::Empty),
        Err(error) => note(&mut lookups, Source::UserData, &error),
    }
    Err(NoDocument { lookups })
}

/// The document in custom data that was saved from provisioning media.
pub fn find_saved(custom_data: SecretBytes) -> Option<FoundDocument> {
    let decoded = decode(custom_data.expose()).ok()?;
    let ovf = OvfEnv { custom_data: Some(custom_data), ..OvfEnv::default() };
    Some(FoundDocument::new(decoded, Source::CustomData, Vec::new(), Some(ovf)))
}

fn note(lookups: &mut Vec<Lookup>, source: Source, error: &dyn std::error::Error) {
    lookups.push(Lookup { source, result: error_line(error) });
}

fn credential(endpoints: &Endpoints, lookups: &mut Vec<Lookup>) -> Option<Decoded> {
    match system_credential(endpoints, CREDENTIAL) {
        Ok(None) => None,
        Ok(Some(bytes)) => decode(bytes.expose()).map_err(|error| note(lookups, Source::SystemCredential, &error)).ok(),
        Err(error) => {
            note(lookups, Source::SystemCredential, &error);
            None
        }
    }
}

/// The content of the provisioning media, or of an agent's copy, once Azure has replaced the placeholder.
fn media(
    endpoints: &Endpoints,
    imds: &Imds,
    wait: &dyn Wait,
    lookups: &mut Vec<Lookup>,
    announce: &mut dyn FnMut() -> bool,
) -> Option<OvfEnv> {
    let read = |lookups: &mut Vec<Lookup>| {
        let mut found = |read: Result<Option<OvfEnv>, Error>| {
            read.unwrap_or_else(|error| {
                note(lookups, Source::CustomData, &error);
                None
            })
        };
        found(ovf_env(endpoints)).or_else(|| found(ovf_env_copy(endpoints)))
    };
    let first = read(lookups)?;
    if !first.preprovisioned {
        return Some(first);
    }
    let result = "placeholder: the machine is preprovisioned and waited for its assignment".to_owned();
    lookups.push(Lookup { source: Source::CustomData, result });
    let mut is_announced = false;
    loop {
        is_announced = is_announced || announce();
        match imds.reprovision(Rules::IMDS.once(), wait) {
            Ok(ovf) if !ovf.preprovisioned => return Some(ovf),
            // Not assigned yet.
            Ok(_) | Err(Error::Deadline { .. } | Error::Refused { .. } | Error::Response { .. }) => {}
            Err(error) => note(lookups, Source::CustomData, &error),
        }
        if let Some(ovf) = read(&mut Vec::new()).filter(|ovf| !ovf.preprovisioned) {
            return Some(ovf);
        }
        wait.network(REPROVISION_POLL);
    }
}

fn custom_data(ovf: Option<&OvfEnv>, lookups: &mut Vec<Lookup>) -> Option<Decoded> {
    let bytes = ovf?.custom_data.as_ref()?;
    decode(bytes.expose()).map_err(|error| note(lookups, Source::CustomData, &error)).ok()
}
