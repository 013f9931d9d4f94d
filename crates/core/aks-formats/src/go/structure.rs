//! Hash of a Go value, compatible with `hashstructure` (format 2, slices as sets, zero values ignored).

use kiln_types::hash::fnv1_64;

/// A Go value that can be hashed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GoValue {
    Text(String),
    Bool(bool),
    Int32(i32),
    Int64(i64),
    /// A slice; the order of its elements does not matter.
    List(Vec<GoValue>),
    /// Type name and non-zero fields in the order of their declaration.
    Struct(&'static str, Vec<(&'static str, GoValue)>),
}

impl GoValue {
    /// Computes the hash.
    pub fn hash(&self) -> u64 {
        match self {
            Self::Text(text) => fnv1_64(text.as_bytes()),
            Self::Bool(value) => fnv1_64(&[u8::from(*value)]),
            Self::Int32(value) => fnv1_64(&value.to_le_bytes()),
            Self::Int64(value) => fnv1_64(&value.to_le_bytes()),
            Self::List(elements) => elements.iter().fold(0, |sum, element| sum ^ element.hash()),
            Self::Struct(name, fields) => {
                // Each step is hashed before the next one, so the order of the fields matters.
                fields.iter().fold(fnv1_64(name.as_bytes()), |sum, (field, value)| {
                    finish(sum ^ ordered(fnv1_64(field.as_bytes()), value.hash()))
                })
            }
        }
    }
}

fn ordered(a: u64, b: u64) -> u64 {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&a.to_le_bytes());
    bytes[8..].copy_from_slice(&b.to_le_bytes());
    fnv1_64(&bytes)
}

fn finish(sum: u64) -> u64 {
    fnv1_64(&sum.to_le_bytes())
}

/// Builder for a struct that skips unset fields.
#[derive(Clone, Debug, Default)]
pub struct Fields(Vec<(&'static str, GoValue)>);

impl Fields {
    /// Adds a field if it is set.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: Option<GoValue>) -> Self {
        self.0.extend(value.map(|value| (name, value)));
        self
    }

    /// Returns the struct.
    pub fn build(self, type_name: &'static str) -> GoValue {
        GoValue::Struct(type_name, self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_matters_for_fields_but_not_for_lists() {
        let text = |text: &str| GoValue::Text(text.to_owned());
        assert_eq!(GoValue::List(vec![text("a"), text("b")]).hash(), GoValue::List(vec![text("b"), text("a")]).hash());
        let forward = Fields::default().with("A", Some(text("x"))).with("B", Some(text("y"))).build("T");
        let backward = Fields::default().with("B", Some(text("y"))).with("A", Some(text("x"))).build("T");
        assert_ne!(forward.hash(), backward.hash());
    }

    #[test]
    fn unset_fields_are_ignored() {
        let with = Fields::default().with("A", None).with("B", Some(GoValue::Bool(false))).build("T");
        let without = Fields::default().with("B", Some(GoValue::Bool(false))).build("T");
        assert_eq!(with.hash(), without.hash());
    }
}
