//! The recorded interactions, and the shape of a JSON document.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::Value;

/// One recorded request with its answer.
#[derive(Debug, Deserialize)]
pub(super) struct Interaction {
    pub(super) method: String,
    pub(super) uri: String,
    pub(super) request: Option<Value>,
    pub(super) status: u16,
    pub(super) headers: BTreeMap<String, String>,
    pub(super) body: Option<Value>,
}

/// All recordings by file name, each in the order on the wire.
pub(super) fn all() -> BTreeMap<String, Vec<Interaction>> {
    let folder = testkit::recordings::golden().join("azure-recordings");
    let files =
        std::fs::read_dir(&folder).expect("the folder of recordings").map(|entry| entry.expect("an entry").path());
    files
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .map(|path| {
            let text = std::fs::read_to_string(&path).expect("a recording");
            let name = path.file_stem().expect("a name").to_string_lossy().into_owned();
            (name, serde_json::from_str(&text).expect("an array of interactions"))
        })
        .collect()
}

impl Interaction {
    /// The path of the URL without the host.
    pub(super) fn path(&self) -> &str {
        let path = self.uri.split_once("azure.com").map_or(self.uri.as_str(), |(_, path)| path);
        path.split('?').next().unwrap_or_default()
    }

    pub(super) fn query(&self, name: &str) -> Option<&str> {
        query(&self.uri, name)
    }

    /// The body of the answer, or null.
    pub(super) fn answer(&self) -> &Value {
        self.body.as_ref().unwrap_or(&Value::Null)
    }

    /// The operation whose status the request reads.
    pub(super) fn operation(&self) -> Option<&str> {
        operation(&self.uri)
    }

    /// Method and type of the target, such as `POST virtualMachineScaleSets/*/start`.
    pub(super) fn kind(&self) -> String {
        let parts = self.path().split('/').skip_while(|part| !part.eq_ignore_ascii_case("providers")).skip(2);
        let words: Vec<&str> = parts.enumerate().map(|(index, part)| if index % 2 == 0 { part } else { "*" }).collect();
        let monitor = if self.query("monitor").is_some() { " monitor" } else { "" };
        format!("{} {}{monitor}", self.method, words.join("/"))
    }
}

/// The value of a query parameter.
pub(super) fn query<'a>(uri: &'a str, name: &str) -> Option<&'a str> {
    let pairs = uri.split_once('?')?.1.split('&').filter_map(|pair| pair.split_once('='));
    pairs.into_iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
}

/// The id of the operation that a status URL names.
pub(super) fn operation(url: &str) -> Option<&str> {
    let (_, rest) = url.split('?').next()?.split_once("/locations/")?;
    match rest.split('/').collect::<Vec<_>>()[..] {
        [_, "operations" | "DiskOperations" | "capsOperations", id] => Some(id),
        _ => None,
    }
}

/// Every path of a document with its JSON types. The items of a list share one path, which ends in `[]`; keys that are resource ids are
/// `*`.
pub(super) fn shape(document: &Value) -> BTreeMap<String, BTreeSet<&'static str>> {
    fn walk(value: &Value, path: &str, into: &mut BTreeMap<String, BTreeSet<&'static str>>) {
        let word = match value {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Number(_) => "number",
            Value::String(_) => "string",
            Value::Array(_) => "list",
            Value::Object(_) => "object",
        };
        if !path.is_empty() {
            into.entry(path.to_owned()).or_default().insert(word);
        }
        match value {
            Value::Object(object) => {
                for (key, value) in object {
                    let key = if key.contains('/') { "*" } else { key };
                    walk(value, &if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }, into);
                }
            }
            Value::Array(items) => items.iter().for_each(|item| walk(item, &format!("{path}[]"), into)),
            _ => {}
        }
    }
    let mut paths = BTreeMap::new();
    walk(document, "", &mut paths);
    paths
}
