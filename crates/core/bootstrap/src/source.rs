//! A source: the values that one file, object or environment sets.

use serde_json::Value;

use crate::field::{Field, UnknownField};
use crate::provenance::{ErrorPosition, SourceKind, SourcePosition};

/// A value that a source sets.
#[derive(Clone, PartialEq)]
pub struct Assignment {
    pub field: &'static str,
    pub value: Value,
    pub position: SourcePosition,
}

impl std::fmt::Debug for Assignment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let secret = Field::named(self.field).is_ok_and(|field| field.secret);
        let shown = if secret { "***".into() } else { self.value.clone() };
        write!(f, "{} = {shown} ({})", self.field, self.position)
    }
}

/// The assignments of one source, in order; a later assignment of a field overrides an earlier one.
#[derive(Clone, Debug, PartialEq)]
pub struct Source {
    pub kind: SourceKind,
    pub assignments: Vec<Assignment>,
}

/// An assignment that is not allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AssignmentError {
    #[error("{}: {source}", ErrorPosition(position))]
    Unknown { position: SourcePosition, source: UnknownField },
    #[error("{}: `{field}` cannot be set by {kind}; {}", ErrorPosition(position), allowed(field))]
    NotAllowed { field: &'static str, kind: SourceKind, position: SourcePosition },
    #[error("{}: `{field}` must be {}", ErrorPosition(position), expected(value_type))]
    WrongType {
        field: &'static str,
        /// Name of the expected type.
        value_type: &'static str,
        position: SourcePosition,
    },
}

fn expected(value_type: &str) -> String {
    match value_type {
        "string" => "a string; put quotes around numbers".to_owned(),
        "integer" => "an integer".to_owned(),
        other => format!("a {other}"),
    }
}

fn allowed(name: &str) -> String {
    let Ok(field) = Field::named(name) else { return String::new() };
    let kinds = field.kinds.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    match (&field.default, kinds.as_str()) {
        (_, kinds) if !kinds.is_empty() => format!("allowed sources: {kinds}"),
        (Some((reason, _)), _) => format!("it is {}", SourceKind::Hardcoded(*reason)),
        (None, _) => format!("it is computed from {}", field.from.join(", ")),
    }
}

impl Source {
    /// Creates a source without assignments.
    pub fn new(kind: SourceKind) -> Self {
        Self { kind, assignments: Vec::new() }
    }

    /// Adds an assignment.
    pub fn set(&mut self, name: &str, value: Value, position: SourcePosition) -> Result<(), AssignmentError> {
        let field = match Field::named(name) {
            Ok(field) => field,
            Err(source) => return Err(AssignmentError::Unknown { position, source }),
        };
        if !field.kinds.contains(&self.kind) {
            return Err(AssignmentError::NotAllowed { field: field.name, kind: self.kind, position });
        }
        if !field.value_type.accepts(&value) {
            return Err(AssignmentError::WrongType {
                field: field.name,
                value_type: field.value_type.as_str(),
                position,
            });
        }
        self.assignments.push(Assignment { field: field.name, value, position });
        Ok(())
    }

    /// Adds an assignment whose value is parsed by the type of the field.
    pub fn set_text(&mut self, name: &str, text: &str, position: SourcePosition) -> Result<(), AssignmentError> {
        let field = match Field::named(name) {
            Ok(field) => field,
            Err(source) => return Err(AssignmentError::Unknown { position, source }),
        };
        match field.value_type.parse(text) {
            Some(value) => self.set(name, value, position),
            None => {
                Err(AssignmentError::WrongType { field: field.name, value_type: field.value_type.as_str(), position })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forbidden_assignment_names_field_source_and_position() {
        let mut source = Source::new(SourceKind::NodePool);
        let position = SourcePosition::File { file: "pool.yaml".to_owned(), line: 7, column: 3, path: "x".to_owned() };
        let error = source.set("tenantId", "t".into(), position.clone()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "pool.yaml:7:3: at `x`: `tenantId` cannot be set by node pool; allowed sources: environment, settings"
        );
        let error = source.set("KubeletFlags", "t".into(), position.clone()).unwrap_err();
        assert!(error.to_string().contains("it is computed from kubernetesVersion"));
        let error = source.set("VMType", "t".into(), position.clone()).unwrap_err();
        assert!(error.to_string().contains("allowed sources: settings"), "{error}");
        let error = source.set("MobyVersion", "t".into(), position.clone()).unwrap_err();
        assert!(error.to_string().contains("it is hardcoded (unused)"), "{error}");
        assert!(matches!(source.set("nonsense", "t".into(), position), Err(AssignmentError::Unknown { .. })));
    }

    #[test]
    fn wrong_type_is_rejected() {
        let mut source = Source::new(SourceKind::NodeClass);
        assert!(matches!(
            source.set("maxPods", "many".into(), SourcePosition::Program),
            Err(AssignmentError::WrongType { .. })
        ));
        source.set_text("maxPods", "30", SourcePosition::Program).unwrap();
        assert_eq!(source.assignments[0].value, 30);
    }

    #[test]
    fn debug_output_contains_no_secrets() {
        let mut source = Source::new(SourceKind::Settings);
        source.set("bootstrapToken", "abcdef.0123456789abcdef".into(), SourcePosition::Program).unwrap();
        assert!(!format!("{source:?}").contains("0123456789abcdef"));
    }
}
