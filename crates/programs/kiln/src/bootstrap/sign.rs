//! `kiln bootstrap sign`.

use std::path::PathBuf;

use clap::Args;
use jiff::{Span, SpanRelativeTo, Timestamp};
use kiln_aks_formats::{Secret, to_base64};
use kiln_node_config::signature::is_time;
use kiln_node_config::{NodeConfig, Signature};
use kiln_tls::SigningKey;
use serde_json::json;

use super::{emit, files};
use crate::answer::{self, Output};
use crate::failure::{Failure, chain};

const EXAMPLES: &str = "Examples:
  kiln bootstrap sign node-config.json --key signing-key.pem --key-id fleet-2026
      Prints the document with a signature that never expires and is valid for every node with the key.
  kiln bootstrap sign node-config.json --key signing-key.pem --key-id fleet-2026 --pool a --cluster prod --expires-in 30d --out signed.json

Create a key with `openssl genpkey -algorithm ed25519`. Nodes need the public key (`openssl pkey -pubout`) as \
/etc/kiln/keys.d/KEY-ID.pub in their image. Signing a document again, for example to extend its expiry, does \
not change its hash, so nodes that have it do nothing.

Exit codes: 0 success, 1 the file could not be written, 2 usage error or invalid input.";

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Sign {
    /// NodeConfig to sign; `-` reads standard input. An existing signature is replaced
    #[arg(value_name = "FILE")]
    document: PathBuf,
    /// ed25519 private key in PEM
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// Name of the key in the image, without `.pub`
    #[arg(long, value_name = "ID")]
    key_id: String,
    /// Only nodes of this pool may accept the document
    #[arg(long, value_name = "NAME")]
    pool: Option<String>,
    /// Only nodes of this cluster may accept the document
    #[arg(long, value_name = "NAME")]
    cluster: Option<String>,
    /// Nodes do not accept the document after this time, such as `12h` or `30d`; nodes that have it keep it
    #[arg(long, value_name = "DURATION", conflicts_with = "expires")]
    expires_in: Option<Span>,
    /// The same as a point in time, such as `2026-12-17T10:00:00Z`
    #[arg(long, value_name = "TIME")]
    expires: Option<Timestamp>,
    /// Write the document to a file instead of standard output, and print a summary
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

pub(super) fn run(arguments: &Sign, output: Output, now: &dyn Fn() -> Timestamp) -> Result<(), Failure> {
    let bytes = files::bytes(&arguments.document)?;
    let mut document = NodeConfig::parse(&bytes).map_err(|error| Failure::file(&arguments.document, chain(&error)))?;
    let pem: Secret = Secret::new(files::text(&arguments.key)?);
    let key = SigningKey::from_pem(pem.expose()).map_err(|error| Failure::file(&arguments.key, error))?;
    let signature = statements(arguments, now())?;
    let expires = Some(signature.expires.clone()).filter(|time| !time.is_empty());
    sign(&mut document, signature, &key);
    let text = format!("{}\n", document.to_json());
    emit::emit(&Secret::new(text), arguments.out.as_deref())?;
    let Some(out) = &arguments.out else { return Ok(()) };
    let (number, hash) = (document.metadata.generation, document.hash());
    let value = json!({
        "file": out.display().to_string(), "generation": number, "hash": hash, "keyId": arguments.key_id,
        "pool": arguments.pool, "cluster": arguments.cluster, "expires": expires,
    });
    answer::either(output, &value, |_| {
        let until = expires.as_ref().map_or("without expiry".to_owned(), |time| format!("until {time}"));
        format!("{}: generation {number} signed with `{}`, {until}\n", out.display(), arguments.key_id)
    })
}

/// The signature without its value.
fn statements(arguments: &Sign, now: Timestamp) -> Result<Signature, Failure> {
    let name = |option: &str, value: Option<&String>| match value {
        Some(value) if value.trim().is_empty() => Err(Failure::input(format_args!("`{option}` must not be empty"))),
        value => Ok(value.cloned().unwrap_or_default()),
    };
    if arguments.key_id.is_empty() || arguments.key_id.contains('/') {
        return Err(Failure::input(format_args!(
            "invalid key id `{}`; expected a file name without `.pub`",
            arguments.key_id
        )));
    }
    let expires = match (&arguments.expires_in, arguments.expires) {
        (Some(span), _) => {
            let duration = span.to_duration(SpanRelativeTo::days_are_24_hours()).map_err(Failure::input)?;
            Some(now.checked_add(duration).map_err(Failure::input)?)
        }
        (None, given) => given,
    };
    if let Some(at) = expires.filter(|at| *at <= now) {
        return Err(Failure::input(format_args!(
            "the signature would have expired at {}; it is {} now",
            time(at),
            time(now)
        )));
    }
    let expires = expires.map(time).unwrap_or_default();
    if !expires.is_empty() && !is_time(&expires) {
        return Err(Failure::input(format_args!("`{expires}` is too far away")));
    }
    Ok(Signature {
        key_id: arguments.key_id.clone(),
        algorithm: "ed25519".to_owned(),
        pool: name("--pool", arguments.pool.as_ref())?,
        cluster: name("--cluster", arguments.cluster.as_ref())?,
        issued: time(now),
        expires,
        value: String::new(),
    })
}

fn sign(document: &mut NodeConfig, signature: Signature, key: &SigningKey) {
    document.signature = Some(signature);
    let value = to_base64(key.sign(&document.signed_bytes()));
    if let Some(signature) = &mut document.signature {
        signature.value = value;
    }
}

/// A time in seconds, as nodes compare it.
fn time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
