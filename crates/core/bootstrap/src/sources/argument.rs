//! Command-line arguments: `--set name=value`.

use super::SourceError;
use crate::field::{Field, UnknownField};
use crate::provenance::{SourceKind, SourcePosition};
use crate::source::{AssignmentError, Source};

/// Returns the sources of `--set` arguments. An argument has the kind of highest precedence that may set its field, and overrides it.
pub fn arguments(arguments: &[String]) -> Result<Vec<Source>, SourceError> {
    let mut sources: Vec<Source> = Vec::new();
    for (index, argument) in arguments.iter().enumerate() {
        // The argument may be a secret with a different separator, so the error only contains its number.
        let (name, text) = argument.split_once('=').ok_or(SourceError::Argument { number: index + 1 })?;
        let position = SourcePosition::Argument(format!("--set {name}"));
        let field = Field::named(name).map_err(|_| AssignmentError::Unknown {
            position: position.clone(),
            source: UnknownField(name.to_owned()),
        })?;
        let mut source = Source::new(field.highest_kind().unwrap_or(SourceKind::Settings));
        source.set_text(name, text, position)?;
        sources.push(source);
    }
    Ok(sources)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn argument_has_the_highest_kind_of_its_field() {
        let sources = arguments(&["maxPods=30".to_owned(), "tenantId=t".to_owned()]).unwrap();
        assert_eq!((sources[0].kind, sources[1].kind), (SourceKind::NodeClass, SourceKind::Settings));
    }

    #[test]
    fn computed_field_is_rejected_without_showing_the_value() {
        let error = arguments(&["TLSBootstrapToken=hunter2".to_owned()]).unwrap_err().to_string();
        assert!(error.contains("computed from bootstrapToken") && !error.contains("hunter2"), "{error}");
    }

    #[test]
    fn argument_without_value_is_reported_by_number_and_not_shown() {
        let error = arguments(&["maxPods=30".to_owned(), "bootstrapToken:hunter2".to_owned()]).unwrap_err().to_string();
        assert_eq!(error, "`--set` number 2: expected `name=value`");
    }
}
