//! Lists: of the current or an earlier revision, whole or paginated.

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

use crate::call::Call;
use crate::error::{ApiError, Result};
use crate::resource::Resource;
use crate::selector::Selector;
use crate::store::{Object, Store};

/// A list, or a page of one.
#[derive(Debug)]
pub(crate) struct List {
    pub(crate) revision: u64,
    pub(crate) items: Vec<Object>,
    /// The continue token.
    pub(crate) next: Option<String>,
    /// The number of remaining items, if known.
    pub(crate) remaining: Option<usize>,
}

/// The content of a continue token.
#[derive(Serialize, Deserialize)]
struct Token {
    rv: u64,
    start: String,
}

/// The selector of a request.
pub(crate) fn selector(call: &Call<'_>, resource: &Resource, name: Option<&str>) -> Result<Selector> {
    let selector = Selector::parse(resource, call.option("labelSelector"), call.option("fieldSelector"))?;
    Ok(match name {
        Some(name) => selector.and_name(name),
        None => selector,
    })
}

pub(crate) fn list(
    store: &Store,
    call: &Call<'_>,
    resource: &'static Resource,
    namespace: Option<&str>,
) -> Result<List> {
    let selector = selector(call, resource, None)?;
    let limit: Option<usize> = call.number("limit")?.filter(|limit| *limit > 0);
    let requested: Option<u64> = version(call)?;
    let (token, at) = match call.option("continue") {
        "" => (None, exact_revision(store, call, requested)?),
        text => {
            let token = read_token(text)?;
            let revision = token.rv;
            (Some(token), Some(revision))
        }
    };
    let object_kind = resource.stored().object_kind;
    let revision = at.unwrap_or(store.revision());
    let all =
        store.all_at(object_kind, namespace, revision).ok_or_else(|| expired(token.is_some(), revision, store))?;
    let from = token.as_ref().map_or(0, |token| all.partition_point(|(key, _)| *key <= token.start));
    let mut items = Vec::new();
    let mut rest = all[from..].iter().filter(|(_, object)| selector.matches(object));
    let mut last = None;
    while limit.is_none_or(|limit| items.len() < limit)
        && let Some((key, object)) = rest.next()
    {
        items.push(object.clone());
        last = Some(key);
    }
    let remaining = rest.count();
    let next = last.filter(|_| remaining > 0).map(|key| write_token(&Token { rv: revision, start: key.clone() }));
    // With a selector the server would have to scan the rest to count it.
    let countable = call.option("labelSelector").is_empty() && call.option("fieldSelector").is_empty();
    Ok(List { revision, items, remaining: next.as_ref().filter(|_| countable).map(|_| remaining), next })
}

/// The exact revision that the client requests, if any.
fn exact_revision(store: &Store, call: &Call<'_>, requested: Option<u64>) -> Result<Option<u64>> {
    if let Some(requested) = requested.filter(|requested| *requested > store.revision()) {
        return Err(ApiError::too_large(requested, store.revision()));
    }
    match (call.option("resourceVersionMatch"), requested) {
        ("Exact", Some(requested)) if requested > 0 => Ok(Some(requested)),
        ("" | "NotOlderThan", _) => Ok(None),
        ("Exact", _) => Err(ApiError::bad("resourceVersionMatch \"Exact\" requires a resourceVersion above 0")),
        (other, _) => Err(ApiError::bad(format!(
            "resourceVersionMatch {other:?} is invalid: supported values: \"Exact\", \"NotOlderThan\""
        ))),
    }
}

/// The `resourceVersion` parameter.
pub(crate) fn version(call: &Call<'_>) -> Result<Option<u64>> {
    match call.option("resourceVersion") {
        "" => Ok(None),
        text => text.parse().map(Some).map_err(|_| ApiError::bad(format!("Invalid value: {text:?}: resourceVersion"))),
    }
}

fn expired(continued: bool, requested: u64, store: &Store) -> ApiError {
    if continued {
        ApiError::expired(
            "The provided continue parameter is too old to display a consistent list result. You must start a new list without the continue parameter.",
        )
    } else {
        ApiError::expired(&format!(
            "The resourceVersion for the provided list is too old: {requested} ({})",
            store.floor()
        ))
    }
}

fn write_token(token: &Token) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(serde_json::to_vec(token).expect("a token has text keys only"))
}

fn read_token(text: &str) -> Result<Token> {
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(text).ok();
    bytes
        .and_then(|bytes| serde_json::from_slice(&bytes).ok())
        .ok_or_else(|| ApiError::bad(format!("continue key is not valid: {text:?}")))
}
