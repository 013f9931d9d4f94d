//! The variables with their values.

use std::collections::BTreeMap;
use std::fmt;

use super::field::{Field, Shape};

/// Values of all fields. `Debug` redacts secrets.
#[derive(Clone, PartialEq, Eq)]
pub struct Variables {
    texts: Vec<String>,
    certificates: Vec<String>,
}

/// An invalid value for a field. The value is not shown, because it may be a secret in the wrong field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    #[error("{field}: expected `true` or `false`")]
    NotBool { field: Field },
    #[error("{field}: expected an integer")]
    NotInt { field: Field },
    #[error("{field}: expected a list")]
    IsList { field: Field },
    #[error("{field}: the value contains a NUL byte")]
    Nul { field: Field },
}

impl Default for Variables {
    fn default() -> Self {
        let texts = Field::ALL
            .into_iter()
            .map(|field| match (field.shape(), field.default_text()) {
                (Shape::Bool, "") => "false".to_owned(),
                (_, text) => text.to_owned(),
            })
            .collect();
        Self { texts, certificates: Vec::new() }
    }
}

impl Variables {
    /// Returns the text of a field. The text of the certificate list is its length.
    pub fn get(&self, field: Field) -> &str {
        &self.texts[field as usize]
    }

    /// Whether a boolean field is true.
    pub fn is_true(&self, field: Field) -> bool {
        self.get(field) == "true"
    }

    /// Sets a field after checking its type.
    pub fn set(&mut self, field: Field, text: impl Into<String>) -> Result<(), ValueError> {
        let text = text.into();
        match field.shape() {
            Shape::Bool if text != "true" && text != "false" => return Err(ValueError::NotBool { field }),
            Shape::Int if text.parse::<i64>().is_err() => return Err(ValueError::NotInt { field }),
            Shape::List => return Err(ValueError::IsList { field }),
            _ if text.contains('\0') => return Err(ValueError::Nul { field }),
            _ => {}
        }
        self.texts[field as usize] = text;
        Ok(())
    }

    /// Sets the list of certificates, each in base64.
    pub fn set_certificates(&mut self, certificates: Vec<String>) -> Result<(), ValueError> {
        let field = Field::CustomCATrustConfigCerts;
        if certificates.iter().any(|certificate| certificate.contains('\0')) {
            return Err(ValueError::Nul { field });
        }
        self.texts[field as usize] = certificates.len().to_string();
        self.certificates = certificates;
        Ok(())
    }

    /// Returns the list of certificates.
    pub fn certificates(&self) -> &[String] {
        &self.certificates
    }

    /// Returns the text of a field, or `***` if it is secret.
    pub fn redacted(&self, field: Field) -> &str {
        let text = self.get(field);
        if field.is_secret() && text != field.default_text() { "***" } else { text }
    }

    /// Returns all environment variables that the script sets.
    pub fn environment(&self) -> BTreeMap<String, String> {
        self.assignments().map(|(name, text)| (name, text.to_owned())).collect()
    }

    /// Returns the assignments in the order of the script.
    pub(super) fn assignments(&self) -> impl Iterator<Item = (String, &str)> {
        let custom_cloud = self.is_true(Field::IsAKSCustomCloud);
        let fields = Field::ALL
            .into_iter()
            .filter(move |field| custom_cloud || *field != Field::AKSCustomCloudRepoDepotEndpoint)
            .filter_map(|field| Some((field.env()?.to_owned(), self.get(field))));
        let certificates = self
            .certificates
            .iter()
            .enumerate()
            .map(|(index, text)| (format!("CUSTOM_CA_CERT_{index}"), text.as_str()));
        fields.chain(certificates).chain(super::script::FIXED.into_iter().map(|(name, text)| (name.to_owned(), text)))
    }
}

impl fmt::Debug for Variables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(Field::ALL.into_iter().map(|field| (field.name(), self.redacted(field)))).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_set_128_variables() {
        let mut variables = Variables::default();
        assert_eq!(variables.environment().len(), 128);
        variables.set_certificates(vec!["YQ==".to_owned()]).unwrap();
        assert_eq!(variables.environment()["CUSTOM_CA_CERT_0"], "YQ==");
        assert_eq!(variables.environment()["CUSTOM_CA_TRUST_COUNT"], "1");
        variables.set(Field::IsAKSCustomCloud, "true").unwrap();
        assert!(variables.environment().contains_key("REPO_DEPOT_ENDPOINT"));
    }

    #[test]
    fn invalid_value_is_rejected_without_showing_it() {
        let mut variables = Variables::default();
        let error = variables.set(Field::DisableSSH, "hunter2").unwrap_err();
        assert_eq!(
            format!("{error} {error:?}"),
            "DisableSSH: expected `true` or `false` NotBool { field: DisableSSH }"
        );
        assert!(matches!(variables.set(Field::SwapFileSizeMB, "1.5"), Err(ValueError::NotInt { .. })));
        assert!(matches!(variables.set(Field::Location, "a\0b"), Err(ValueError::Nul { .. })));
        assert!(variables.set(Field::CustomCATrustConfigCerts, "a").is_err());
    }

    #[test]
    fn debug_output_contains_no_secrets() {
        let mut variables = Variables::default();
        for field in Field::ALL.into_iter().filter(|field| field.is_secret()) {
            variables.set(field, "hunter2").unwrap();
        }
        let shown = format!("{variables:?}");
        assert!(!shown.contains("hunter2") && shown.contains("***"));
    }
}
