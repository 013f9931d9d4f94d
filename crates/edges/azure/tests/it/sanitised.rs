//! Recordings of the real Azure, as `--record` would write them.

mod recordings {
    use std::collections::{BTreeMap, BTreeSet};

    use kiln_azure::wire::{Exchange, Sanitiser};
    use serde_json::Value;

    /// The values of these fields, wherever they are.
    fn values_of<'v>(value: &'v Value, keys: &[&str], found: &mut BTreeSet<&'v str>) {
        match value {
            Value::Object(fields) => {
                for (key, value) in fields {
                    if let Some(text) = value.as_str().filter(|_| keys.contains(&key.as_str())) {
                        found.insert(text);
                    }
                    values_of(value, keys, found);
                }
            }
            Value::Array(items) => items.iter().for_each(|item| values_of(item, keys, found)),
            _ => {}
        }
    }

    #[test]
    fn names_are_gone_and_states_stay_in_every_recorded_exchange() {
        let folder = testkit::recordings::golden().join("azure-recordings");
        let files = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
        let mut exchanges = 0;
        for path in files.filter(|path| path.extension().is_some_and(|extension| extension == "json")) {
            let all: Vec<Value> = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
            let mut sanitiser = Sanitiser::default();
            for recorded in &all {
                exchanges += 1;
                let bytes = |value: &Value| if value.is_null() { Vec::new() } else { value.to_string().into_bytes() };
                let headers: BTreeMap<String, String> = serde_json::from_value(recorded["headers"].clone()).unwrap();
                let exchange = Exchange {
                    method: recorded["method"].as_str().unwrap().to_owned(),
                    url: recorded["uri"].as_str().unwrap().to_owned(),
                    request_body: bytes(&recorded["request"]).into(),
                    status: u16::try_from(recorded["status"].as_u64().unwrap()).unwrap(),
                    headers,
                    response_body: bytes(&recorded["body"]).into(),
                };
                let line = sanitiser.line(&exchange);
                let text = line.to_string().to_lowercase();
                let group =
                    exchange.url.split("/resourceGroups/").nth(1).and_then(|rest| rest.split(['/', '?']).next());
                let mut hidden = BTreeSet::from_iter(group);
                values_of(&recorded["body"], &["computerNamePrefix"], &mut hidden);
                for name in hidden.iter().filter(|name| name.len() > 4) {
                    assert!(!text.contains(&name.to_lowercase()), "{}: `{name}` in {text}", path.display());
                }
                let mut kept = BTreeSet::new();
                let removed = ["adminUsername", "customData", "keyData", "createdBy", "storageUri"];
                values_of(&line, &removed, &mut kept);
                assert!(kept.iter().all(|text| text.starts_with("removed: ")), "{}: {kept:?}", path.display());
                let states = |value: &Value| -> BTreeSet<String> {
                    let mut found = BTreeSet::new();
                    values_of(value, &["provisioningState", "status", "code", "vmSize", "exactVersion"], &mut found);
                    found.into_iter().map(str::to_owned).collect()
                };
                assert_eq!(states(&line["body"]), states(&recorded["body"]), "{}", path.display());
            }
        }
        assert!(exchanges > 1_000, "only {exchanges} exchanges");
    }
}
