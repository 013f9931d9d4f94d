//! Lists: of now or of an earlier revision, whole or page by page.

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
    /// What the next page starts with.
    pub(crate) next: Option<String>,
    /// How many are left, where that is known.
    pub(crate) remaining: Option<usize>,
}

/// Where a page starts, as clients carry it.
#[derive(Serialize, Deserialize)]
struct Token {
    rv: u64,
    start: String,
}

/// What the request wants to see.
pub(crate) fn selector(call: &Call<'_>, resource: &Resource, name: Option<&str>) -> Result<Selector> {
    let selector = Selector::parse(resource.sort, call.option("labelSelector"), call.option("fieldSelector"))?;
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
    let asked: Option<u64> = version(call)?;
    let (token, at) = match call.option("continue") {
        "" => (None, exactly(store, call, asked)?),
        text => {
            let token = read_token(text)?;
            let revision = token.rv;
            (Some(token), Some(revision))
        }
    };
    let sort = resource.stored().sort;
    let revision = at.unwrap_or(store.revision());
    let all = store.all_at(sort, namespace, revision).ok_or_else(|| old(token.is_some(), revision, store))?;
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
    let left = rest.count();
    let next = last.filter(|_| left > 0).map(|key| write_token(&Token { rv: revision, start: key.clone() }));
    // With a selector the server would have to read on to know.
    let known = call.option("labelSelector").is_empty() && call.option("fieldSelector").is_empty();
    Ok(List { revision, items, remaining: next.as_ref().filter(|_| known).map(|_| left), next })
}

/// The revision that the client wants to see exactly, if it does.
fn exactly(store: &Store, call: &Call<'_>, asked: Option<u64>) -> Result<Option<u64>> {
    if let Some(asked) = asked.filter(|asked| *asked > store.revision()) {
        return Err(ApiError::too_large(asked, store.revision()));
    }
    match (call.option("resourceVersionMatch"), asked) {
        ("Exact", Some(asked)) if asked > 0 => Ok(Some(asked)),
        ("" | "NotOlderThan", _) => Ok(None),
        ("Exact", _) => Err(ApiError::bad("resourceVersionMatch \"Exact\" needs a resourceVersion above 0")),
        (other, _) => Err(ApiError::bad(format!(
            "resourceVersionMatch {other:?} is unknown: supported values: \"Exact\", \"NotOlderThan\""
        ))),
    }
}

/// The revision that the client names.
pub(crate) fn version(call: &Call<'_>) -> Result<Option<u64>> {
    match call.option("resourceVersion") {
        "" => Ok(None),
        text => text.parse().map(Some).map_err(|_| ApiError::bad(format!("Invalid value: {text:?}: resourceVersion"))),
    }
}

fn old(continued: bool, asked: u64, store: &Store) -> ApiError {
    if continued {
        ApiError::expired(
            "The provided continue parameter is too old to display a consistent list result. You must start a new list without the continue parameter.",
        )
    } else {
        ApiError::expired(&format!("The resourceVersion for the provided list is too old: {asked} ({})", store.floor()))
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
