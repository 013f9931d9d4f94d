//! Custom resources. [`Definitions`] has the versions of all `CustomResourceDefinition` objects in the store, with what the requests for
//! them need: the row, the schema and the printer columns.

mod cells;
pub(crate) mod definition;
mod fields;
mod path;
mod rules;
mod validate;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::error::FieldError;
use crate::resource::{ObjectKind, Resource, Subresource};
use crate::{intern, meta};

pub(crate) use cells::Column;
pub(crate) use fields::field_schema;
use rules::Rules;
pub(crate) use validate::list_key;

/// One version of a custom resource.
#[derive(Debug)]
pub(crate) struct Definition {
    pub(crate) resource: &'static Resource,
    /// The structural schema of its objects.
    pub(crate) schema: Value,
    pub(crate) columns: Vec<Column>,
    rules: Rules,
    served: bool,
    /// Whether objects are stored in this version.
    storage: bool,
}

impl Definition {
    /// Removes fields that the schema does not have and nulls that it does not allow, and sets defaults. Returns the paths of unknown
    /// fields.
    pub(crate) fn normalize(&self, object: &mut Value) -> Vec<String> {
        let mut unknown = Vec::new();
        fields::prune(&self.schema, object, &mut unknown);
        fields::drop_nulls(&self.schema, object);
        fields::set_defaults(&self.schema, object);
        unknown
    }

    /// Checks an object against schema and rules. `old` is the object before the change.
    pub(crate) fn check(&self, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut causes = validate::check(&self.schema, object);
        if !validate::are_blocking(&causes) {
            causes.extend(self.rules.check(object, old));
        } else if !self.rules.are_empty() {
            let why = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";
            causes.push(FieldError::invalid("<nil>", &Value::Null, why));
        }
        causes
    }
}

/// The versions of all custom resources, by the name of their definition.
#[derive(Debug, Default)]
pub(crate) struct Definitions(BTreeMap<String, Vec<Arc<Definition>>>);

impl Definitions {
    /// Follows a change of a `CustomResourceDefinition`; `None` for a removed one.
    pub(crate) fn update(&mut self, name: &str, object: Option<&Value>) {
        match object {
            Some(object) => drop(self.0.insert(name.to_owned(), versions(object))),
            None => drop(self.0.remove(name)),
        }
    }

    /// All served versions, in discovery order.
    pub(crate) fn served(&self) -> impl Iterator<Item = &Arc<Definition>> {
        self.0.values().flatten().filter(|version| version.served)
    }

    pub(crate) fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Definition>> {
        self.0.get(&format!("{plural}.{group}"))?.iter().find(|one| one.served && one.resource.version == version)
    }

    /// The definition of a row.
    pub(crate) fn of(&self, resource: &Resource) -> Option<&Arc<Definition>> {
        let ObjectKind::Custom(name) = resource.object_kind else {
            return None;
        };
        self.0.get(name)?.iter().find(|one| one.resource.version == resource.version)
    }

    /// The row of the version in which objects are stored.
    pub(crate) fn stored(&self, object_kind: ObjectKind) -> Option<&'static Resource> {
        let ObjectKind::Custom(name) = object_kind else {
            return None;
        };
        self.0.get(name)?.iter().find(|one| one.storage).map(|one| one.resource)
    }

    /// The kind of the objects of a definition.
    pub(crate) fn object_kind(&self, name: &str) -> Option<ObjectKind> {
        self.0.get(name)?.first().map(|one| one.resource.object_kind)
    }

    /// Besides the core group and the built-in groups: each group with its served versions, the preferred one first.
    pub(crate) fn groups(&self) -> Vec<(&'static str, Vec<&'static str>)> {
        let mut groups: BTreeMap<&'static str, Vec<&'static str>> = BTreeMap::new();
        for Resource { group, version, .. } in self.served().map(|one| one.resource) {
            let versions = groups.entry(group).or_default();
            if !versions.contains(version) {
                versions.push(version);
            }
        }
        for versions in groups.values_mut() {
            versions.sort_by_key(|version| std::cmp::Reverse(priority(version)));
        }
        groups.into_iter().collect()
    }
}

/// `v2` before `v1` before `v1beta1` before `v1alpha1`, and all of them before other names.
fn priority(version: &str) -> (u8, u32, u32) {
    let parse = || -> Option<(u8, u32, u32)> {
        let rest = version.strip_prefix('v')?;
        for (stage, name) in [(2, "beta"), (1, "alpha")] {
            if let Some((major, minor)) = rest.split_once(name) {
                return Some((stage, major.parse().ok()?, minor.parse().ok()?));
            }
        }
        Some((3, rest.parse().ok()?, 0))
    };
    parse().unwrap_or_default()
}

fn versions(object: &Value) -> Vec<Arc<Definition>> {
    let established = meta::condition(object, "Established").is_some_and(|condition| condition["status"] == "True");
    let list = meta::list(object, "/spec/versions");
    list.iter()
        .map(|version| {
            let schema = version.pointer("/schema/openAPIV3Schema").cloned().unwrap_or_else(|| json!({}));
            Arc::new(Definition {
                resource: row(object, version),
                columns: Column::of_version(version),
                rules: Rules::compile(&schema),
                schema,
                served: established && version["served"] == json!(true),
                storage: version["storage"] == json!(true),
            })
        })
        .collect()
}

fn row(object: &Value, version: &Value) -> &'static Resource {
    let text = |pointer: &str| intern::text(meta::text(object, pointer));
    let texts = |pointer: &str| intern::list(meta::list(object, pointer).iter().filter_map(Value::as_str));
    let fields = meta::list(version, "/selectableFields").iter().map(|field| meta::text(field, "/jsonPath"));
    let has_status = version.pointer("/subresources/status").is_some();
    intern::resource(Resource {
        object_kind: ObjectKind::Custom(text("/metadata/name")),
        group: text("/spec/group"),
        version: intern::text(meta::text(version, "/name")),
        plural: text("/spec/names/plural"),
        singular: text("/spec/names/singular"),
        kind: text("/spec/names/kind"),
        list_kind: Some(text("/spec/names/listKind")),
        namespaced: meta::text(object, "/spec/scope") == "Namespaced",
        short: texts("/spec/names/shortNames"),
        categories: texts("/spec/names/categories"),
        subresources: if has_status { &[Subresource::Status] } else { &[] },
        generation: true,
        create_on_update: false,
        unconditional_update: false,
        selectable: intern::list(fields.map(|path| path.trim_start_matches('.'))),
    })
}

/// Converts a stored object to the version of a request. Versions differ only in their name: there are no conversion webhooks.
pub(crate) fn to_version(resource: &Resource, mut object: Value) -> Value {
    object["apiVersion"] = json!(resource.api_version());
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_ordered_by_stability_and_number() {
        let mut names = ["foo", "v1alpha1", "v1", "v2beta1", "v10", "v1beta2", "v2"];
        names.sort_by_key(|name| std::cmp::Reverse(priority(name)));
        assert_eq!(names, ["v10", "v2", "v1", "v2beta1", "v1beta2", "v1alpha1", "foo"]);
    }
}
