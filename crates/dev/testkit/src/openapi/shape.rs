//! The properties of an object after resolving `$ref`, `allOf` and discriminators.

use std::collections::BTreeMap;

use serde_json::Value;

use super::document::Node;

/// The properties that an object of a schema may have.
pub(super) struct Shape<'a> {
    pub(super) properties: BTreeMap<&'a str, Node<'a>>,
    pub(super) others: Others<'a>,
}

/// The rule for properties that the schema does not name.
#[derive(Clone, Copy)]
pub(super) enum Others<'a> {
    Forbidden,
    Free,
    Each(Node<'a>),
}

impl<'a> Shape<'a> {
    pub(super) fn of(schema: Node<'a>) -> Self {
        let mut properties = BTreeMap::new();
        let mut declared = None;
        gather(schema, &mut properties, &mut declared);
        // Swagger allows further properties in every object. Here a schema that names properties allows no others, and a schema that
        // names none (`settings` of an extension) allows all.
        let others = declared.unwrap_or(if properties.is_empty() { Others::Free } else { Others::Forbidden });
        Self { properties, others }
    }
}

fn gather<'a>(schema: Node<'a>, properties: &mut BTreeMap<&'a str, Node<'a>>, declared: &mut Option<Others<'a>>) {
    let schema = schema.resolved();
    for part in schema.items("allOf") {
        gather(part, properties, declared);
    }
    for (name, property) in schema.members("properties") {
        properties.insert(name, property);
    }
    match schema.get("additionalProperties") {
        None => {}
        Some(node) => {
            *declared = Some(match node.value {
                Value::Bool(false) => Others::Forbidden,
                Value::Bool(true) => Others::Free,
                _ => Others::Each(node),
            });
        }
    }
}

/// The variants of `base`, each with the discriminator value that selects it.
pub(super) fn variants(base: Node<'_>) -> Vec<(&str, Node<'_>)> {
    base.documents()
        .roots()
        .flat_map(|root| root.members("definitions"))
        .filter(|(_, definition)| definition.identity() != base.identity() && extends(*definition, base))
        .map(|(name, definition)| {
            let tag = definition.text("x-ms-discriminator-value").unwrap_or(name);
            (tag, definition)
        })
        .collect()
}

fn extends(definition: Node<'_>, base: Node<'_>) -> bool {
    definition.items("allOf").any(|part| {
        let parent = part.resolved();
        parent.identity() == base.identity() || extends(parent, base)
    })
}

/// The variant that the value's discriminator selects, else the schema itself.
pub(super) fn select_variant<'a>(schema: Node<'a>, value: &Value) -> Node<'a> {
    let schema = schema.resolved();
    let tag = schema.text("discriminator").and_then(|discriminator| value.get(discriminator)?.as_str());
    let variant = tag.and_then(|tag| variants(schema).into_iter().find(|(name, _)| *name == tag));
    variant.map_or(schema, |(_, variant)| variant)
}

/// Whether only the service sets this property.
pub(super) fn is_read_only(property: Node<'_>) -> bool {
    any_attribute(property, &|node| {
        node.flag("readOnly") || mutability(node).is_some_and(|allowed| allowed == ["read"])
    })
}

/// Whether `x-ms-mutability` exists and lacks `act` (`create`, `update` or `read`).
pub(super) fn lacks(property: Node<'_>, act: &str) -> bool {
    any_attribute(property, &|node| mutability(node).is_some_and(|allowed| !allowed.contains(&act)))
}

/// Attributes of a property may be next to its `$ref` or in the definition.
fn any_attribute(property: Node<'_>, test: &impl Fn(Node<'_>) -> bool) -> bool {
    test(property) || property.target().is_some_and(|target| any_attribute(target, test))
}

fn mutability(node: Node<'_>) -> Option<Vec<&str>> {
    let listed = node.value.get("x-ms-mutability")?.as_array()?;
    Some(listed.iter().filter_map(Value::as_str).collect())
}
