//! Checks beyond JSON Schema: unknown properties, and properties that this side may not send.

use serde_json::Value;

use super::bundle::is_extensible;
use super::document::Node;
use super::shape::{Others, Shape, is_read_only, lacks, select_variant};
use super::{Kind, Side};

/// A violation in a body.
pub(super) struct Offence {
    pub(super) kind: Kind,
    pub(super) pointer: String,
    pub(super) message: String,
}

/// The purpose of a body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Purpose {
    /// PUT.
    Create,
    /// PATCH.
    Update,
    /// POST and other methods with a body.
    Act,
    Read,
}

impl Purpose {
    pub(super) fn of_request(method: &str) -> Self {
        match method.to_ascii_uppercase().as_str() {
            "PUT" => Self::Create,
            "PATCH" => Self::Update,
            _ => Self::Act,
        }
    }

    pub(super) fn side(self) -> Side {
        match self {
            Self::Read => Side::Response,
            Self::Create | Self::Update | Self::Act => Side::Request,
        }
    }

    fn forbids(self, property: Node<'_>) -> Option<(Kind, &'static str)> {
        let (kind, message) = match self {
            Self::Read if lacks(property, "read") => (Kind::WriteOnly, "must not be returned"),
            Self::Create | Self::Update | Self::Act if is_read_only(property) => (Kind::ReadOnly, "is read-only"),
            Self::Update if lacks(property, "update") => (Kind::ReadOnly, "can only be set at creation"),
            _ => return None,
        };
        Some((kind, message))
    }
}

/// Walks schema and value in parallel.
pub(super) fn walk(schema: Node<'_>, value: &Value, purpose: Purpose) -> Vec<Offence> {
    let mut offences = Vec::new();
    visit(schema, value, purpose, "", &mut offences);
    offences
}

fn visit(schema: Node<'_>, value: &Value, purpose: Purpose, pointer: &str, offences: &mut Vec<Offence>) {
    let schema = select_variant(schema, value);
    match value {
        Value::Object(members) => {
            let shape = Shape::of(schema);
            for (name, member) in members {
                let place = format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1"));
                match (shape.properties.get(name.as_str()), shape.others) {
                    (Some(property), _) => {
                        if let Some((kind, message)) = purpose.forbids(*property) {
                            offences.push(Offence { kind, message: format!("`{name}` {message}"), pointer: place });
                        } else {
                            visit(*property, member, purpose, &place, offences);
                        }
                    }
                    (None, Others::Each(each)) => visit(each, member, purpose, &place, offences),
                    (None, Others::Free) => {}
                    (None, Others::Forbidden) => offences.push(Offence {
                        kind: Kind::UnknownProperty,
                        message: unknown(name, &shape),
                        pointer: place,
                    }),
                }
            }
        }
        Value::Array(items) => {
            if let Some(each) = schema.get("items") {
                for (index, item) in items.iter().enumerate() {
                    visit(each, item, purpose, &format!("{pointer}/{index}"), offences);
                }
            }
        }
        Value::String(text) if is_extensible(schema) => {
            // Later versions may add values, but none that differs from a known one only in case.
            let listed: Vec<&str> = schema.items("enum").filter_map(|value| value.value.as_str()).collect();
            let similar = listed.iter().find(|known| known.eq_ignore_ascii_case(text));
            if let Some(known) = similar.filter(|_| !listed.contains(&text.as_str())) {
                offences.push(Offence {
                    kind: Kind::Schema,
                    message: format!("the value differs from `{known}` in case"),
                    pointer: pointer.to_owned(),
                });
            }
        }
        _ => {}
    }
}

fn unknown(name: &str, shape: &Shape<'_>) -> String {
    let similar = shape.properties.keys().find(|known| known.eq_ignore_ascii_case(name));
    match similar {
        Some(known) => format!("unknown property `{name}`; did you mean `{known}`?"),
        None => format!("unknown property `{name}`"),
    }
}
