//! Environment variables.

use std::collections::BTreeMap;

use super::SourceError;
use crate::field::Field;
use crate::kind::{Kind, Place};
use crate::layer::Layer;

/// The layer of environment variables. Of several names for a field the first that is set counts; an empty one is not set.
pub fn environment(variables: &BTreeMap<String, String>) -> Result<Layer, SourceError> {
    let mut layer = Layer::new(Kind::Environment);
    for field in Field::all() {
        let found =
            field.reads.iter().find_map(|name| Some((*name, variables.get(*name).filter(|text| !text.is_empty())?)));
        if let Some((name, text)) = found {
            layer.set_text(field.name, text, Place::Variable(name.to_owned()))?;
        }
    }
    Ok(layer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layer(pairs: &[(&str, &str)]) -> Result<Layer, SourceError> {
        environment(&pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect())
    }

    #[test]
    fn the_first_name_that_is_set_counts() {
        let said =
            layer(&[("AZURE_TENANT_ID", ""), ("ARM_TENANT_ID", "b"), ("NODE_IDENTITIES", "x,y"), ("OTHER", "z")])
                .unwrap();
        assert_eq!(said.assignments.len(), 2);
        assert_eq!(said.assignments[0].place, Place::Variable("ARM_TENANT_ID".to_owned()));
        assert_eq!(said.assignments[1].value, serde_json::json!(["x", "y"]));
    }

    #[test]
    fn a_variable_that_is_no_boolean_is_named_and_not_shown() {
        let error = layer(&[("USE_SIG", "hunter2")]).unwrap_err().to_string();
        assert_eq!(error, "$USE_SIG: `useSharedGallery` is a boolean");
    }
}
