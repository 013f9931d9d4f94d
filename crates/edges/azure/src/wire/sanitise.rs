//! Removes what identifies a user from exchanges with ARM, so that a recording can be given to others.
//!
//! Subscriptions, tenants and other GUIDs, names of resources, addresses and tags become placeholders; the same value gets the same
//! placeholder in the whole recording, so requests and answers still belong together. Custom data, settings of extensions, keys and access
//! tokens are removed; only their length remains, because limits depend on it. States, sizes, versions, locations, error codes and the
//! shape of the documents are kept: they are what a recording is for.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::Exchange;

/// Keys whose values are removed, whatever they contain.
const SECRET_KEYS: [&str; 26] = [
    "accessSAS",
    "adminPassword",
    "adminUsername",
    "blobUri",
    "certificateUrl",
    "commandToExecute",
    "createdBy",
    "customData",
    "fileUris",
    "keyData",
    "keyUrl",
    "lastModifiedBy",
    "protectedSettings",
    "protectedSettingsFromKeyVault",
    // Their paths contain the name of the user.
    "publicKeys",
    "publicSettings",
    "sasUri",
    "script",
    "secretUrl",
    "secrets",
    "securityData",
    "settings",
    "sourceUri",
    // The host is the user's storage account.
    "storageUri",
    "uri",
    "userData",
];

/// Keys with names that are in no resource id.
const NAME_KEYS: [&str; 4] = ["computerName", "computerNamePrefix", "domainNameLabel", "description"];

/// Types whose names are not the user's.
const PUBLIC_TYPES: [&str; 8] =
    ["locations", "providers", "publishers", "artifacttypes", "offers", "skus", "versions", "communityGalleries"];

/// Parameters of operation URLs that sign the URL. Recordings keep their length, because real handles are 3 KB long.
const SIGNATURES: [&str; 5] = ["t", "c", "s", "h", "sig"];

const GUID_LENGTH: usize = 36;

/// Names that are shorter are only replaced where they are the whole value: as a part of other text they are ordinary letters.
const SHORTEST_PART: usize = 4;

/// The placeholders of one recording.
#[derive(Debug, Default)]
pub struct Sanitiser {
    /// Names in lower case, with their placeholders. Azure changes the case of resource groups.
    names: BTreeMap<String, String>,
    guids: BTreeMap<String, String>,
    addresses: BTreeMap<String, String>,
}

impl Sanitiser {
    /// One line of a recording: `method`, `uri`, `request`, `status`, `headers` and `body`.
    pub fn line(&mut self, exchange: &Exchange) -> Value {
        let read = |bytes: &[u8]| {
            if bytes.is_empty() { Value::Null } else { serde_json::from_slice(bytes).unwrap_or(Value::Null) }
        };
        let (request, body) = (read(&exchange.request_body), read(&exchange.response_body));
        self.learn(&exchange.url);
        for document in [&request, &body] {
            self.learn_all(document);
        }
        for value in exchange.headers.values() {
            self.learn(value);
        }
        let headers: Map<String, Value> =
            exchange.headers.iter().map(|(name, value)| (name.clone(), self.text(value).into())).collect();
        serde_json::json!({
            "method": exchange.method, "uri": self.text(&exchange.url), "request": self.document("", &request),
            "status": exchange.status, "headers": headers, "body": self.document("", &body),
        })
    }

    /// Learns the names in all resource ids of a document.
    fn learn_all(&mut self, document: &Value) {
        match document {
            Value::String(text) => self.learn(text),
            Value::Array(items) => items.iter().for_each(|item| self.learn_all(item)),
            Value::Object(fields) => {
                for (key, value) in fields {
                    if let (true, Some(name)) = (NAME_KEYS.contains(&key.as_str()), value.as_str()) {
                        self.name(key, name);
                    }
                    self.learn_all(value);
                }
            }
            _ => {}
        }
    }

    /// Learns the names in a resource id or a URL: each second segment after `resourceGroups` or a provider.
    fn learn(&mut self, text: &str) {
        let path = text.split('?').next().unwrap_or_default();
        let Some(at) = path.to_ascii_lowercase().find("/subscriptions/") else { return };
        let segments: Vec<&str> = path[at + 1..].split('/').collect();
        let mut index = 0;
        while let [kind, name] = segments.get(index..index + 2).unwrap_or_default() {
            let is_version = name.split('.').all(|part| part.parse::<u64>().is_ok());
            let is_public = PUBLIC_TYPES.iter().any(|public| public.eq_ignore_ascii_case(kind));
            if !is_version && !is_public && !kind.eq_ignore_ascii_case("subscriptions") && !is_guid(name) {
                self.name(kind, name);
            }
            index += 2;
        }
    }

    fn name(&mut self, kind: &str, name: &str) {
        let key = name.to_ascii_lowercase();
        if !key.is_empty() && !self.names.contains_key(&key) {
            let stem = kind.trim_end_matches('s').to_ascii_lowercase();
            let number = self.names.len() + 1;
            self.names.insert(key, format!("{stem}{number}"));
        }
    }

    fn document(&mut self, key: &str, document: &Value) -> Value {
        if SECRET_KEYS.iter().any(|secret| secret.eq_ignore_ascii_case(key)) && !document.is_null() {
            return removed(document);
        }
        if key.eq_ignore_ascii_case("tags") {
            return self.tags(document);
        }
        match document {
            Value::String(text) => Value::String(self.text(text)),
            Value::Array(items) => items.iter().map(|item| self.document(key, item)).collect(),
            Value::Object(fields) => Value::Object(
                fields
                    .iter()
                    // Keys can be resource ids: those of user-assigned identities.
                    .map(|(key, value)| (self.text(key), self.document(key, value)))
                    .collect(),
            ),
            other => other.clone(),
        }
    }

    /// Tags: those of kiln keep their name, because it shows what kiln did; all values are removed.
    fn tags(&mut self, tags: &Value) -> Value {
        let Some(tags) = tags.as_object() else { return self.document("", tags) };
        let mut kept = Map::new();
        for (index, (key, value)) in tags.iter().enumerate() {
            let is_ours = key.starts_with("kiln") || key.starts_with("prototype");
            kept.insert(if is_ours { key.clone() } else { format!("tag{index}") }, removed(value));
        }
        Value::Object(kept)
    }

    fn text(&mut self, text: &str) -> String {
        let text = without_signatures(text);
        let text = self.replace_guids(&text);
        let text = self.replace_addresses(&text);
        let lower = text.to_ascii_lowercase();
        if let Some(placeholder) = self.names.get(&lower) {
            return cased(&text, placeholder);
        }
        self.replace_names(&text)
    }

    /// Replaces GUIDs, also inside longer words such as the names of operations.
    fn replace_guids(&mut self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(next) = rest.chars().next() {
            let length = if let Some(guid) = rest.get(..GUID_LENGTH).filter(|word| is_guid(word)) {
                let number = self.guids.len();
                let new = || format!("00000000-0000-0000-0000-{number:012}");
                out += self.guids.entry(guid.to_ascii_lowercase()).or_insert_with(new);
                GUID_LENGTH
            } else {
                out.push(next);
                next.len_utf8()
            };
            rest = &rest[length..];
        }
        out
    }

    fn replace_addresses(&mut self, text: &str) -> String {
        let is_word = |c: char| c.is_ascii_digit() || c == '.';
        let mut out = String::with_capacity(text.len());
        for part in text.split_inclusive(|c| !is_word(c)) {
            let word = part.trim_end_matches(|c| !is_word(c));
            if word.parse::<std::net::Ipv4Addr>().is_ok() {
                // The range that is reserved for documentation.
                let number = self.addresses.len() % 256;
                out += self.addresses.entry(word.to_owned()).or_insert_with(|| format!("192.0.2.{number}"));
            } else {
                out += word;
            }
            out += &part[word.len()..];
        }
        out
    }

    /// Replaces names, the longest first, because one may contain another.
    fn replace_names(&self, text: &str) -> String {
        let mut names: Vec<(&String, &String)> =
            self.names.iter().filter(|(name, _)| name.len() >= SHORTEST_PART).collect();
        names.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        let lower = text.to_ascii_lowercase();
        let mut out = String::with_capacity(text.len());
        let mut at = 0;
        while at < text.len() {
            let found = names.iter().find(|(name, _)| lower[at..].starts_with(name.as_str()));
            if let Some((name, placeholder)) = found {
                out += &cased(&text[at..at + name.len()], placeholder);
                at += name.len();
            } else if let Some(next) = text[at..].chars().next() {
                // Short names are replaced where they are a whole segment of a path.
                out.push(next);
                at += next.len_utf8();
            }
        }
        self.replace_segments(&out)
    }

    fn replace_segments(&self, text: &str) -> String {
        if !text.contains('/') {
            return text.to_owned();
        }
        let segments = text.split('/').map(|segment| {
            let known = self.names.get(&segment.to_ascii_lowercase()).filter(|_| segment.len() < SHORTEST_PART);
            known.map_or_else(|| segment.to_owned(), |placeholder| cased(segment, placeholder))
        });
        segments.collect::<Vec<_>>().join("/")
    }
}

/// The placeholder in the case of the original, where that is upper case.
fn cased(original: &str, placeholder: &str) -> String {
    let has_letters = original.chars().any(|c| c.is_ascii_alphabetic());
    if has_letters && !original.chars().any(|c| c.is_ascii_lowercase()) {
        placeholder.to_ascii_uppercase()
    } else {
        placeholder.to_owned()
    }
}

fn removed(value: &Value) -> Value {
    let length = value.as_str().map_or_else(|| value.to_string().len(), str::len);
    Value::String(format!("removed: {length} characters"))
}

fn is_guid(text: &str) -> bool {
    let lengths: Vec<usize> = text.split('-').map(str::len).collect();
    lengths == [8, 4, 4, 4, 12] && text.chars().all(|c| c.is_ascii_hexdigit() || c == '-')
}

/// Replaces the values of signing parameters by as many `x`.
fn without_signatures(text: &str) -> String {
    let Some((path, query)) = text.split_once('?').filter(|(path, _)| path.starts_with("http")) else {
        return text.to_owned();
    };
    let parameters = query.split('&').map(|parameter| match parameter.split_once('=') {
        Some((name, value)) if SIGNATURES.contains(&name) => format!("{name}={}", "x".repeat(value.len())),
        _ => parameter.to_owned(),
    });
    format!("{path}?{}", parameters.collect::<Vec<_>>().join("&"))
}

#[cfg(test)]
mod tests {
    use azure_core::Bytes;
    use serde_json::json;

    use super::*;

    const SUBSCRIPTION: &str = "878b429d-36c9-419e-b26c-cf231d73e03f";

    fn exchange(request: &Value, body: &Value) -> Exchange {
        let url = format!(
            "https://management.azure.com/subscriptions/{SUBSCRIPTION}/resourceGroups/Contoso-Prod/providers/Microsoft.Compute/virtualMachineScaleSets/ops-pool/virtualMachines/11?api-version=2024-03-01"
        );
        let operation = format!(
            "https://management.azure.com/subscriptions/{SUBSCRIPTION}/providers/Microsoft.Compute/locations/westus/operations/11111111-2222-3333-4444-555555555555?p=1&t=secret&api-version=2024-03-01"
        );
        Exchange {
            method: "PUT".to_owned(),
            url,
            request_body: Bytes::from(request.to_string()),
            status: 202,
            headers: BTreeMap::from([("azure-asyncoperation".to_owned(), operation)]),
            response_body: Bytes::from(body.to_string()),
        }
    }

    #[test]
    fn names_and_ids_are_replaced_consistently_and_states_are_kept() {
        let body = json!({
            "name": "ops-pool_11", "location": "westus", "sku": {"name": "Standard_D2s_v5"}, "tags": {"cost": "4711", "kiln-run": "r1"},
            "id": format!("/subscriptions/{SUBSCRIPTION}/resourceGroups/CONTOSO-PROD/providers/Microsoft.Compute/disks/Disk-Of-Alice"),
            "systemData": {"createdBy": "alice@contoso.example"},
            "diagnosticsProfile": {"bootDiagnostics": {"storageUri": "https://contosologs.blob.example/"}},
            "properties": {"osProfile": {"computerName": "ops-pool00000B", "adminUsername": "alice",
                    "linuxConfiguration": {"ssh": {"publicKeys": [{"path": "/home/alice/.ssh/authorized_keys"}]}}}, "provisioningState": "Succeeded",
                "networkProfile": {"address": "10.1.2.3"}, "message": format!("disk 'disk-of-alice' at 10.1.2.3, operation x{SUBSCRIPTION}")},
        });
        let line = Sanitiser::default().line(&exchange(&json!({"properties": {"userData": "c2VjcmV0"}}), &body));
        let text = line.to_string();
        for planted in
            [SUBSCRIPTION, "ontoso", "ONTOSO", "ops-pool", "lice", "10.1.2.3", "4711", "c2VjcmV0", "t=secret", "r1\""]
        {
            assert!(!text.contains(planted), "{planted}: {text}");
        }
        let name = line["body"]["name"].as_str().unwrap();
        let pool = name.strip_suffix("_11").unwrap_or_else(|| panic!("{name}"));
        assert!(
            line["uri"].as_str().unwrap().contains(&format!("/virtualMachineScaleSets/{pool}/virtualMachines/11?"))
        );
        assert_eq!(line["body"]["location"], "westus");
        assert_eq!(line["body"]["sku"]["name"], "Standard_D2s_v5");
        assert_eq!(line["body"]["properties"]["provisioningState"], "Succeeded");
        assert_eq!(line["request"]["properties"]["userData"], "removed: 8 characters");
        assert!(line["body"]["tags"]["kiln-run"].is_string());
        let operation = line["headers"]["azure-asyncoperation"].as_str().unwrap();
        assert!(operation.contains("?p=1&t=xxxxxx&api-version=2024-03-01"), "{operation}");
        // Azure's upper case of a resource group stays visible.
        let group = line["body"]["id"].as_str().unwrap().split('/').nth(4).unwrap();
        assert_eq!(group, group.to_ascii_uppercase());
    }

    #[test]
    fn short_names_are_replaced_as_segments_only() {
        let mut sanitiser = Sanitiser::default();
        let id = "/subscriptions/s/resourceGroups/rg/providers/Microsoft.Compute/disks/os";
        sanitiser.learn(id);
        let text = sanitiser.text(id);
        assert!(!text.contains("/rg/") && !text.ends_with("/os"), "{text}");
        assert_eq!(sanitiser.text("a target position"), "a target position");
    }
}
