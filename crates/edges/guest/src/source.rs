//! Where a machine that has no document yet gets one.

use std::fmt;
use std::time::Duration;

use kiln_types::SecretBytes;
use serde::{Deserialize, Serialize};

use crate::credential::system_credential;
use crate::decode::{self, DecodeError, Decoded, decode};
use crate::endpoints::Endpoints;
use crate::error::GuestError;
use crate::imds::Imds;
use crate::medium::ovf_env;
use crate::ovf::OvfEnv;
use crate::retry::Rules;
use crate::wait::Wait;

/// The system credential that holds a document.
const CREDENTIAL: &str = "kiln.node-config";
/// How long a medium is waited for while nobody else has a document: the driver of the drive may come late. Never before the metadata
/// service was asked, or every machine without a medium would pay for it.
const MEDIUM: Duration = Duration::from_secs(5);
/// How often it is looked for.
const LOOK: Duration = Duration::from_millis(250);
/// How often a machine that was started ahead asks whether somebody wants it.
const AHEAD: Duration = Duration::from_secs(1);

/// Where a document was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Source {
    /// A credential that systemd was given.
    SystemCredential,
    /// The custom data on the provisioning medium.
    CustomData,
    /// The user data of the metadata service.
    UserData,
}

/// What became of a look.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Looked {
    pub source: Source,
    /// What was there.
    pub found: String,
}

/// A document, and the way to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub document: Vec<u8>,
    /// The credential that came with it, or in the custom data of a machine whose document is in its user data.
    pub credential: Option<SecretBytes>,
    /// Where it was.
    pub source: Source,
    /// What was there before it.
    pub looked: Vec<Looked>,
    /// What the provisioning medium said besides, where there is one.
    pub ovf: Option<OvfEnv>,
}

impl Found {
    fn of(Decoded { document, credential }: Decoded, source: Source, looked: Vec<Looked>, ovf: Option<OvfEnv>) -> Self {
        Self { document, credential, source, looked, ovf }
    }
}

/// There is no document anywhere.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no document was found ({}); give the machine user data with a NodeConfig", told(.looked))]
pub struct NotFound {
    /// What was there instead.
    pub looked: Vec<Looked>,
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

fn told(looked: &[Looked]) -> String {
    looked.iter().map(|look| format!("{}: {}", look.source, look.found)).collect::<Vec<_>>().join("; ")
}

/// Looks for a document: first where no network is needed, then at the metadata service.
///
/// A machine that was started ahead of need has placeholders on its medium. It waits here, for as long as it takes, until somebody
/// asks for it.
pub fn find(endpoints: &Endpoints, rules: Rules, wait: &dyn Wait, chance: u64) -> Result<Found, NotFound> {
    let mut looked = Vec::new();
    if let Some(decoded) = credential(endpoints, &mut looked) {
        return Ok(Found::of(decoded, Source::SystemCredential, looked, None));
    }
    let imds = Imds::new(&endpoints.imds, chance);
    let mut ovf = medium(endpoints, &imds, wait, &mut looked);
    if let Some(decoded) = custom_data(ovf.as_ref(), &mut looked) {
        return Ok(Found::of(decoded, Source::CustomData, looked, ovf));
    }
    let started = wait.now();
    // A service that does not answer must not hide a medium that comes late.
    let patience = if ovf.is_none() { rules.within(MEDIUM) } else { rules };
    let mut answer = imds.user_data(patience, wait);
    if ovf.is_none() && !matches!(answer, Ok(Some(_))) {
        loop {
            ovf = medium(endpoints, &imds, wait, &mut Vec::new());
            if ovf.is_some() || wait.now().saturating_sub(started) >= MEDIUM {
                break;
            }
            wait.sleep(LOOK);
        }
        if let Some(decoded) = custom_data(ovf.as_ref(), &mut looked) {
            return Ok(Found::of(decoded, Source::CustomData, looked, ovf));
        }
        if matches!(answer, Err(GuestError::Deadline { .. })) {
            answer = imds.user_data(rules, wait);
        }
    }
    match answer {
        // Every pod reads user data.
        Ok(Some(bytes)) => match decode(&bytes).and_then(Decoded::public) {
            Ok(document) => {
                let beside = ovf.as_ref().and_then(|ovf| ovf.custom_data.as_ref());
                let credential = beside.and_then(|bytes| decode::credential(bytes.expose()));
                return Ok(Found::of(Decoded { document, credential }, Source::UserData, looked, ovf));
            }
            Err(error) => note(&mut looked, Source::UserData, &error),
        },
        Ok(None) => note(&mut looked, Source::UserData, &DecodeError::Empty),
        Err(error) => note(&mut looked, Source::UserData, &error),
    }
    Err(NotFound { looked })
}

/// What custom data holds that was kept from an earlier look at a medium.
pub fn find_kept(custom_data: SecretBytes) -> Option<Found> {
    let decoded = decode(custom_data.expose()).ok()?;
    let ovf = OvfEnv { custom_data: Some(custom_data), ..OvfEnv::default() };
    Some(Found::of(decoded, Source::CustomData, Vec::new(), Some(ovf)))
}

fn note(looked: &mut Vec<Looked>, source: Source, found: &dyn std::error::Error) {
    let mut text = found.to_string();
    let mut cause = found.source();
    while let Some(inner) = cause {
        text = format!("{text}: {inner}");
        cause = inner.source();
    }
    looked.push(Looked { source, found: text });
}

fn credential(endpoints: &Endpoints, looked: &mut Vec<Looked>) -> Option<Decoded> {
    match system_credential(endpoints, CREDENTIAL) {
        Ok(None) => None,
        Ok(Some(bytes)) => decode(bytes.expose()).map_err(|error| note(looked, Source::SystemCredential, &error)).ok(),
        Err(error) => {
            note(looked, Source::SystemCredential, &error);
            None
        }
    }
}

/// What the medium says, once it is no placeholder any more.
fn medium(endpoints: &Endpoints, imds: &Imds, wait: &dyn Wait, looked: &mut Vec<Looked>) -> Option<OvfEnv> {
    let read = |looked: &mut Vec<Looked>| match ovf_env(endpoints) {
        Ok(found) => found,
        Err(error) => {
            note(looked, Source::CustomData, &error);
            None
        }
    };
    let first = read(looked)?;
    if !first.preprovisioned {
        return Some(first);
    }
    let found = "a placeholder: the machine was started ahead and waited to be asked for".to_owned();
    looked.push(Looked { source: Source::CustomData, found });
    loop {
        match imds.reprovision(Rules::IMDS.once(), wait) {
            Ok(ovf) if !ovf.preprovisioned => return Some(ovf),
            // A network that is not there yet is waited for inside; everything else says that nobody asked yet.
            Ok(_) | Err(GuestError::Deadline { .. } | GuestError::Refused { .. } | GuestError::Answer { .. }) => {}
            Err(error) => note(looked, Source::CustomData, &error),
        }
        if let Some(ovf) = read(&mut Vec::new()).filter(|ovf| !ovf.preprovisioned) {
            return Some(ovf);
        }
        wait.network(AHEAD);
    }
}

fn custom_data(ovf: Option<&OvfEnv>, looked: &mut Vec<Looked>) -> Option<Decoded> {
    let bytes = ovf?.custom_data.as_ref()?;
    decode(bytes.expose()).map_err(|error| note(looked, Source::CustomData, &error)).ok()
}
