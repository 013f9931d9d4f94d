//! `--set name=value`.

use super::SourceError;
use crate::field::{Field, UnknownField};
use crate::kind::{Kind, Place};
use crate::layer::{AssignmentError, Layer};

/// Layers of arguments. An argument speaks for the strongest kind that may set its field, and after it.
pub fn arguments(arguments: &[String]) -> Result<Vec<Layer>, SourceError> {
    let mut layers: Vec<Layer> = Vec::new();
    for (index, argument) in arguments.iter().enumerate() {
        // What is before another sign may be a secret already, so that it is not repeated.
        let (name, text) = argument.split_once('=').ok_or(SourceError::Argument { number: index + 1 })?;
        let place = Place::Argument(format!("--set {name}"));
        let field = Field::named(name)
            .map_err(|_| AssignmentError::Unknown { place: place.clone(), source: UnknownField(name.to_owned()) })?;
        let mut layer = Layer::new(field.strongest().unwrap_or(Kind::Settings));
        layer.set_text(name, text, place)?;
        layers.push(layer);
    }
    Ok(layers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_speaks_for_the_strongest_kind_of_its_field() {
        let layers = arguments(&["maxPods=30".to_owned(), "tenantId=t".to_owned()]).unwrap();
        assert_eq!((layers[0].kind, layers[1].kind), (Kind::NodeClass, Kind::Settings));
    }

    #[test]
    fn a_field_that_only_the_program_sets_is_refused_and_the_value_is_not_shown() {
        let error = arguments(&["TLSBootstrapToken=hunter2".to_owned()]).unwrap_err().to_string();
        assert!(error.contains("computed from bootstrapToken") && !error.contains("hunter2"), "{error}");
    }

    #[test]
    fn an_argument_without_a_value_is_named_by_its_number_and_not_shown() {
        let error = arguments(&["maxPods=30".to_owned(), "bootstrapToken:hunter2".to_owned()]).unwrap_err().to_string();
        assert_eq!(error, "the 2nd `--set` is not `name=value`");
    }
}
