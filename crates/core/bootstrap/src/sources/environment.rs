//! Environment variables as a source.

use std::collections::BTreeMap;

use super::SourceError;
use crate::field::Field;
use crate::provenance::{SourceKind, SourcePosition};
use crate::source::Source;

/// Returns the source of environment variables. The first non-empty variable of a field wins.
pub fn environment(variables: &BTreeMap<String, String>) -> Result<Source, SourceError> {
    let mut source = Source::new(SourceKind::Environment);
    for field in Field::all() {
        let found =
            field.reads.iter().find_map(|name| Some((*name, variables.get(*name).filter(|text| !text.is_empty())?)));
        if let Some((name, text)) = found {
            source.set_text(field.name, text, SourcePosition::Variable(name.to_owned()))?;
        }
    }
    Ok(source)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(pairs: &[(&str, &str)]) -> Result<Source, SourceError> {
        environment(&pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect())
    }

    #[test]
    fn first_variable_that_is_set_wins() {
        let source =
            source(&[("AZURE_TENANT_ID", ""), ("ARM_TENANT_ID", "b"), ("NODE_IDENTITIES", "x,y"), ("OTHER", "z")])
                .unwrap();
        assert_eq!(source.assignments.len(), 2);
        assert_eq!(source.assignments[0].position, SourcePosition::Variable("ARM_TENANT_ID".to_owned()));
        assert_eq!(source.assignments[1].value, serde_json::json!(["x", "y"]));
    }

    #[test]
    fn invalid_variable_is_named_without_its_value() {
        let error = source(&[("USE_SIG", "hunter2")]).unwrap_err().to_string();
        assert_eq!(error, "$USE_SIG: `useSharedGallery` must be a boolean");
    }
}
