//! The output of Helm, as text and as objects.

use serde_json::Value;

/// The objects of a release.
#[derive(Debug, Clone)]
pub struct Rendered {
    pub text: String,
    pub objects: Vec<Value>,
}

impl Rendered {
    /// Parses the output of `helm template`.
    ///
    /// # Panics
    /// If it is not YAML.
    #[track_caller]
    pub fn new(text: String) -> Self {
        let objects: Vec<Value> = serde_saphyr::from_multiple(&text)
            .unwrap_or_else(|error| panic!("{error}\nin what Helm rendered:\n{text}"));
        Self { text, objects }
    }

    /// The only object of a kind, or null.
    #[track_caller]
    pub fn one(&self, kind: &str) -> &Value {
        let found: Vec<_> = self.objects.iter().filter(|object| object["kind"] == kind).collect();
        assert!(found.len() <= 1, "{} objects are of kind {kind}", found.len());
        found.first().copied().unwrap_or(&Value::Null)
    }

    /// The object of a kind and name, or null.
    pub fn named(&self, kind: &str, name: &str) -> &Value {
        let mut found = self.objects.iter();
        found.find(|object| object["kind"] == kind && object["metadata"]["name"] == name).unwrap_or(&Value::Null)
    }

    /// The kinds, sorted.
    pub fn kinds(&self) -> Vec<&str> {
        let mut kinds: Vec<_> = self.objects.iter().filter_map(|object| object["kind"].as_str()).collect();
        kinds.sort_unstable();
        kinds
    }

    /// The spec of the Job, or of the `CronJob`'s Jobs.
    #[track_caller]
    pub fn job(&self) -> &Value {
        let job = self.one("Job");
        if job.is_null() { &self.one("CronJob")["spec"]["jobTemplate"]["spec"] } else { &job["spec"] }
    }

    /// The pod of the run.
    #[track_caller]
    pub fn pod(&self) -> &Value {
        &self.job()["template"]
    }

    /// The arguments of the container, each surrounded by spaces.
    #[track_caller]
    pub fn arguments(&self) -> String {
        let words = self.pod()["spec"]["containers"][0]["args"].as_array().into_iter().flatten();
        let words: Vec<_> =
            words.map(|word| word.as_str().unwrap_or_else(|| panic!("{word} is not a string"))).collect();
        format!(" {} ", words.join(" "))
    }

    /// The value of an environment variable of the container, or null.
    #[track_caller]
    pub fn variable(&self, name: &str) -> &Value {
        let mut all = self.pod()["spec"]["containers"][0]["env"].as_array().into_iter().flatten();
        all.find(|variable| variable["name"] == name).map_or(&Value::Null, |variable| &variable["value"])
    }
}
