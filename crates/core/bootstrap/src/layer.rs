//! Layers: what one source says.

use serde_json::Value;

use crate::field::{Field, UnknownField};
use crate::kind::{Kind, Place, Pointed};

/// One value that a source gives a field.
#[derive(Clone, PartialEq)]
pub struct Assignment {
    pub field: &'static str,
    pub value: Value,
    /// Where it stands.
    pub place: Place,
}

impl std::fmt::Debug for Assignment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let secret = Field::named(self.field).is_ok_and(|field| field.secret);
        let shown = if secret { "***".into() } else { self.value.clone() };
        write!(f, "{} = {shown} ({})", self.field, self.place)
    }
}

/// What one source says, in the order in which it says it; later wins.
#[derive(Clone, Debug, PartialEq)]
pub struct Layer {
    pub kind: Kind,
    /// What it says.
    pub assignments: Vec<Assignment>,
}

/// A value that a source may not give a field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AssignmentError {
    /// No such field.
    #[error("{}: {source}", Pointed(place))]
    Unknown {
        /// Where it stands.
        place: Place,
        source: UnknownField,
    },
    /// The field does not take values from this kind of source.
    #[error("{}: `{field}` cannot be set by {kind}: {}", Pointed(place), allowed(field))]
    Kind {
        field: &'static str,
        /// The kind of source.
        kind: Kind,
        /// Where it stands.
        place: Place,
    },
    /// The value has another form.
    #[error("{}: `{field}` is a {form}{}", Pointed(place), if *form == "text" { "; a number needs quotes to be one" } else { "" })]
    Form {
        field: &'static str,
        /// The form that it has.
        form: &'static str,
        /// Where the value stands.
        place: Place,
    },
}

fn allowed(name: &str) -> String {
    let Ok(field) = Field::named(name) else { return String::new() };
    let kinds = field.kinds.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    match (&field.default, kinds.as_str()) {
        (_, kinds) if !kinds.is_empty() => format!("{kinds} may"),
        (Some((why, _)), _) => format!("it is {}", Kind::Hardcoded(*why)),
        (None, _) => format!("it is computed from {}", field.from.join(", ")),
    }
}

impl Layer {
    /// An empty layer.
    pub fn new(kind: Kind) -> Self {
        Self { kind, assignments: Vec::new() }
    }

    /// Adds a value.
    pub fn set(&mut self, name: &str, value: Value, place: Place) -> Result<(), AssignmentError> {
        let field = match Field::named(name) {
            Ok(field) => field,
            Err(source) => return Err(AssignmentError::Unknown { place, source }),
        };
        if !field.kinds.contains(&self.kind) {
            return Err(AssignmentError::Kind { field: field.name, kind: self.kind, place });
        }
        if !field.form.admits(&value) {
            return Err(AssignmentError::Form { field: field.name, form: field.form.as_str(), place });
        }
        self.assignments.push(Assignment { field: field.name, value, place });
        Ok(())
    }

    /// Adds a value that is written as a text.
    pub fn set_text(&mut self, name: &str, text: &str, place: Place) -> Result<(), AssignmentError> {
        let field = match Field::named(name) {
            Ok(field) => field,
            Err(source) => return Err(AssignmentError::Unknown { place, source }),
        };
        match field.form.read(text) {
            Some(value) => self.set(name, value, place),
            None => Err(AssignmentError::Form { field: field.name, form: field.form.as_str(), place }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_that_may_not_set_a_field_is_named_with_the_field_and_the_place() {
        let mut layer = Layer::new(Kind::NodePool);
        let place = Place::File { file: "pool.yaml".to_owned(), line: 7, column: 3, path: "x".to_owned() };
        let error = layer.set("tenantId", "t".into(), place.clone()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "pool.yaml:7:3: at `x`: `tenantId` cannot be set by node pool: environment, settings may"
        );
        let error = layer.set("KubeletFlags", "t".into(), place.clone()).unwrap_err();
        assert!(error.to_string().contains("it is computed from kubernetesVersion"));
        let error = layer.set("VMType", "t".into(), place.clone()).unwrap_err();
        assert!(error.to_string().contains("settings may"), "{error}");
        let error = layer.set("MobyVersion", "t".into(), place.clone()).unwrap_err();
        assert!(error.to_string().contains("it is hardcoded (unused)"), "{error}");
        assert!(matches!(layer.set("nonsense", "t".into(), place), Err(AssignmentError::Unknown { .. })));
    }

    #[test]
    fn a_value_of_another_form_is_refused() {
        let mut layer = Layer::new(Kind::NodeClass);
        assert!(matches!(layer.set("maxPods", "many".into(), Place::Program), Err(AssignmentError::Form { .. })));
        layer.set_text("maxPods", "30", Place::Program).unwrap();
        assert_eq!(layer.assignments[0].value, 30);
    }

    #[test]
    fn a_secret_does_not_print() {
        let mut layer = Layer::new(Kind::Settings);
        layer.set("bootstrapToken", "abcdef.0123456789abcdef".into(), Place::Program).unwrap();
        assert!(!format!("{layer:?}").contains("0123456789abcdef"));
    }
}
