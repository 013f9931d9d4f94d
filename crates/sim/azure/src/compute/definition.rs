//! Image definitions.

use http::Method;
use serde_json::{Value, json};

use super::{gallery, grammar};
use crate::arm::call::{Call, HandlerResult};
use crate::arm::error::ArmError;
use crate::arm::id::ResourceId;
use crate::arm::kind::ResourceKind;
use crate::arm::route;
use crate::world::World;
use crate::world::resource::Resource;

/// Properties that cannot be changed after creation, with their default.
const IMMUTABLE: &[(&str, Option<&str>)] = &[
    ("properties.osType", None),
    ("properties.osState", None),
    ("properties.hyperVGeneration", Some("V1")),
    ("properties.architecture", Some("x64")),
    ("properties.identifier", None),
    ("properties.features", None),
];

pub(crate) fn write(world: &mut World, call: &Call, id: &ResourceId) -> HandlerResult {
    let current = world.resources.get(&id.key());
    if call.method == Method::PUT {
        grammar::definition_name(id.name())?;
        call.text("location")?;
        for required in ["osType", "osState", "identifier.publisher", "identifier.offer", "identifier.sku"] {
            call.text(&format!("properties.{required}"))?;
        }
        one_of(call, "properties.osType", &["Linux", "Windows"])?;
        one_of(call, "properties.osState", &["Generalized", "Specialized"])?;
        one_of(call, "properties.hyperVGeneration", &["V1", "V2"])?;
        one_of(call, "properties.architecture", &["x64", "Arm64"])?;
    }
    if let (Some(current), &Method::PUT | &Method::PATCH) = (current, &call.method) {
        unchanged(call, current)?;
    }
    let mut call = call.clone();
    if call.method == Method::PUT
        && let Some(Value::Object(properties)) = call.body.get_mut("properties")
    {
        for (name, default) in [("hyperVGeneration", "V1"), ("architecture", "x64")] {
            if properties.get(name).is_none_or(Value::is_null) {
                properties.insert(name.to_owned(), json!(default));
            }
        }
        // Empty lists and objects are not stored.
        let empty = |value: &Value| *value == json!([]) || *value == json!({});
        properties.retain(|_, value| !empty(value));
    }
    if call.method == Method::PATCH && current.is_none() {
        return Err(route::not_found(id));
    }
    let lasts = world.spec.profile.definition;
    gallery::write_nested(world, &call, id, ResourceKind::Version, lasts)
}

fn one_of(call: &Call, path: &str, known: &[&str]) -> Result<(), ArmError> {
    match call.field(path).and_then(Value::as_str) {
        Some(value) if !known.iter().any(|one| one.eq_ignore_ascii_case(value)) => {
            let name = path.strip_prefix("properties.").unwrap_or(path);
            Err(ArmError::parameter(
                name,
                format!(
                    "The value '{value}' of parameter '{name}' is invalid; it must be one of {}.",
                    known.join(", ")
                ),
            ))
        }
        _ => Ok(()),
    }
}

fn unchanged(call: &Call, current: &Resource) -> Result<(), ArmError> {
    for (path, default) in IMMUTABLE {
        let default = default.map(|value| json!(value));
        let old = current.at(path).or(default.as_ref());
        let new = call.field(path).or(if call.method == Method::PUT { default.as_ref() } else { None });
        let same = |old: &Value, new: &Value| match (old.as_str(), new.as_str()) {
            (Some(old), Some(new)) => old.eq_ignore_ascii_case(new),
            _ => old == new,
        };
        let differs = match (old, new) {
            (Some(old), Some(new)) => !same(old, new),
            (None, Some(_)) => true,
            _ => false,
        };
        if differs {
            return Err(ArmError::immutable(&format!("galleryImage.{path}")));
        }
    }
    Ok(())
}
