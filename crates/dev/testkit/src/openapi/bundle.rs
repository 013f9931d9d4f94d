//! Converts a Swagger schema and everything that it refers to into one JSON Schema (draft 4).

use std::collections::HashMap;

use serde_json::{Map, Value, json};

use super::Side;
use super::document::Node;
use super::shape::{Shape, is_read_only, variants};

/// The JSON Schema of a body that is sent in this direction.
pub(super) fn draft4(schema: Node<'_>, side: Side) -> Value {
    let mut bundle = Bundle { side, names: HashMap::new(), waiting: Vec::new() };
    let mut root = Map::new();
    let top = bundle.schema(schema);
    let mut definitions = Map::new();
    while let Some((name, node, role)) = bundle.waiting.pop() {
        let definition = match role {
            Role::Whole => bundle.whole(node),
            Role::Base => bundle.without_variants(node),
        };
        definitions.insert(name, definition);
    }
    root.insert("allOf".to_owned(), json!([top]));
    root.insert("definitions".to_owned(), Value::Object(definitions));
    Value::Object(root)
}

/// How a schema is used. As a base in the `allOf` of a variant it does not include its other variants.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Role {
    Whole,
    Base,
}

struct Bundle<'a> {
    side: Side,
    names: HashMap<(usize, Role), String>,
    waiting: Vec<(String, Node<'a>, Role)>,
}

impl<'a> Bundle<'a> {
    fn schema(&mut self, node: Node<'a>) -> Value {
        let schema =
            if let Some(target) = node.target() { self.reference(target, Role::Whole) } else { self.whole(node) };
        if node.flag("x-nullable") { json!({ "anyOf": [schema, { "type": "null" }] }) } else { schema }
    }

    fn reference(&mut self, target: Node<'a>, role: Role) -> Value {
        let next = self.names.len().to_string();
        let name = self.names.entry((target.identity(), role)).or_insert_with(|| {
            self.waiting.push((next.clone(), target, role));
            next
        });
        json!({ "$ref": format!("#/definitions/{name}") })
    }

    fn whole(&mut self, node: Node<'a>) -> Value {
        let Some(discriminator) = node.text("discriminator") else {
            return self.without_variants(node);
        };
        let known = variants(node);
        let tagged =
            |tags: &[&str]| json!({ "required": [discriminator], "properties": { discriminator: { "enum": tags } } });
        let tags: Vec<&str> = known.iter().map(|(tag, _)| *tag).collect();
        let mut choices: Vec<Value> = known
            .iter()
            .map(|(tag, variant)| json!({ "allOf": [tagged(&[tag]), self.reference(*variant, Role::Base)] }))
            .collect();
        if choices.is_empty() {
            return self.without_variants(node);
        }
        choices.push(json!({ "allOf": [{ "not": tagged(&tags) }, self.reference(node, Role::Base)] }));
        json!({ "anyOf": choices })
    }

    fn without_variants(&mut self, node: Node<'a>) -> Value {
        if let Some(target) = node.target() {
            return self.reference(target, Role::Base);
        }
        let Some(members) = node.value.as_object() else {
            return node.value.clone();
        };
        let mut schema = Map::new();
        for (keyword, value) in members {
            let kept = match keyword.as_str() {
                "properties" => {
                    let properties = node.members(keyword);
                    properties.map(|(name, property)| (name.clone(), self.schema(property))).collect()
                }
                "items" => self.schema(node.at(value)),
                "additionalProperties" if value.is_object() => self.schema(node.at(value)),
                "allOf" => node.items(keyword).map(|part| self.base(part)).collect(),
                "required" => match self.required(node) {
                    names if names.is_empty() => continue,
                    names => json!(names),
                },
                "enum" if is_extensible(node) => continue,
                "type"
                | "enum"
                | "format"
                | "pattern"
                | "additionalProperties"
                | "minLength"
                | "maxLength"
                | "minimum"
                | "maximum"
                | "exclusiveMinimum"
                | "exclusiveMaximum"
                | "multipleOf"
                | "minItems"
                | "maxItems"
                | "uniqueItems"
                | "minProperties"
                | "maxProperties" => value.clone(),
                _ => continue,
            };
            schema.insert(keyword.clone(), kept);
        }
        Value::Object(schema)
    }

    fn base(&mut self, node: Node<'a>) -> Value {
        match node.target() {
            Some(target) => self.reference(target, Role::Base),
            None => self.without_variants(node),
        }
    }

    /// A property that only the service sets is not required in requests.
    fn required(&self, node: Node<'a>) -> Vec<&'a str> {
        let shape = Shape::of(node);
        let absent = |name: &str| {
            let property = shape.properties.get(name);
            self.side == Side::Request && property.is_some_and(|property| is_read_only(*property))
        };
        node.items("required").filter_map(|name| name.value.as_str()).filter(|name| !absent(name)).collect()
    }
}

/// Later versions may add values to an enumeration that is modelled as a string, so unknown values are valid.
pub(super) fn is_extensible(schema: Node<'_>) -> bool {
    schema.get("x-ms-enum").is_some_and(|named| named.flag("modelAsString"))
}
