//! Protected settings of extensions, which the cloud never returns.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::secret::Secret;

/// The protected settings of extensions, by the name of the extension.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProtectedSettings(BTreeMap<String, Secret>);

/// Why protected settings cannot be used. The text itself is never quoted, because it is secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadProtectedSettings {
    #[error("not valid JSON at line {line}, column {column}")]
    Json { line: usize, column: usize },
    #[error("expected a JSON object with one object for each extension")]
    NotByExtension,
    #[error("the settings of extension `{0}` are not a JSON object")]
    Settings(String),
}

impl ProtectedSettings {
    /// Parses a JSON object with the settings of each extension under its name.
    pub fn parse(text: &str) -> Result<Self, BadProtectedSettings> {
        let mut all = Self::default();
        let Value::Object(extensions) = json(text)? else { return Err(BadProtectedSettings::NotByExtension) };
        for (name, settings) in extensions {
            all.insert(name, &settings)?;
        }
        Ok(all)
    }

    /// Adds the settings of one extension, as JSON.
    pub fn add(&mut self, extension: &str, text: &str) -> Result<(), BadProtectedSettings> {
        let settings = json(text).map_err(|_| BadProtectedSettings::Settings(extension.to_owned()))?;
        self.insert(extension.to_owned(), &settings)
    }

    fn insert(&mut self, extension: String, settings: &Value) -> Result<(), BadProtectedSettings> {
        if !settings.is_object() {
            return Err(BadProtectedSettings::Settings(extension));
        }
        self.0.insert(extension, Secret::new(settings.to_string()));
        Ok(())
    }

    /// The extensions that have settings here.
    pub fn extensions(&self) -> BTreeSet<String> {
        self.0.keys().cloned().collect()
    }

    /// The settings of an extension, as JSON. Azure compares names without case.
    pub fn get(&self, extension: &str) -> Option<&Secret> {
        self.0.iter().find(|(name, _)| name.eq_ignore_ascii_case(extension)).map(|(_, settings)| settings)
    }
}

fn json(text: &str) -> Result<Value, BadProtectedSettings> {
    serde_json::from_str(text)
        .map_err(|error| BadProtectedSettings::Json { line: error.line(), column: error.column() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_found_by_extension_and_never_printed() {
        let settings = ProtectedSettings::parse(r#"{"vmssCSE": {"commandToExecute": "hunter2"}, "x": {}}"#).unwrap();
        assert_eq!(settings.get("VMSSCSE").unwrap().expose(), r#"{"commandToExecute":"hunter2"}"#);
        assert_eq!(settings.get("other"), None);
        assert_eq!(settings.extensions(), ["vmssCSE", "x"].map(str::to_owned).into());
        assert!(!format!("{settings:?}").contains("hunter2"));
    }

    #[test]
    fn error_names_the_place_and_never_the_text() {
        let mut settings = ProtectedSettings::default();
        let errors = [
            ProtectedSettings::parse("{\n  hunter2").unwrap_err(),
            ProtectedSettings::parse(r#"["hunter2"]"#).unwrap_err(),
            ProtectedSettings::parse(r#"{"cse": "hunter2"}"#).unwrap_err(),
            settings.add("cse", "hunter2").unwrap_err(),
        ];
        assert_eq!(errors[0], BadProtectedSettings::Json { line: 2, column: 3 });
        assert_eq!(errors[2], BadProtectedSettings::Settings("cse".to_owned()));
        assert!(errors.iter().all(|error| !error.to_string().contains("hunter2")), "{errors:?}");
    }
}
