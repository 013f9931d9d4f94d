//! Resource ids and ARM paths: case-insensitive on input, in Azure's spelling on output.

use serde::{Deserialize, Serialize};

use super::kind::ResourceKind;

/// The id of a resource. Ids that differ only in case are equal; compare [`ResourceId::key`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ResourceId {
    pub(crate) subscription: String,
    pub(crate) group: String,
    pub(crate) kind: ResourceKind,
    /// One name per part of the type.
    pub(crate) names: Vec<String>,
}

impl ResourceId {
    pub(crate) fn new(subscription: &str, group: &str, kind: ResourceKind, names: &[&str]) -> Self {
        debug_assert_eq!(names.len(), kind.types().split('/').count(), "{kind:?} {names:?}");
        Self {
            subscription: subscription.to_owned(),
            group: group.to_owned(),
            kind,
            names: names.iter().map(|&name| name.to_owned()).collect(),
        }
    }

    /// Parses an id. Returns `None` if the resource type is not simulated.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        match Target::parse(text)? {
            Target::Resource(id) => Some(id),
            _ => None,
        }
    }

    /// The last name.
    pub(crate) fn name(&self) -> &str {
        self.names.last().map_or("", String::as_str)
    }

    /// The key in the tables.
    pub(crate) fn key(&self) -> String {
        self.to_string().to_ascii_lowercase()
    }

    /// The id of a child resource.
    pub(crate) fn child(&self, kind: ResourceKind, name: &str) -> Self {
        let mut names = self.names.clone();
        names.push(name.to_owned());
        Self { subscription: self.subscription.clone(), group: self.group.clone(), kind, names }
    }

    /// The id of another resource in the same group.
    pub(crate) fn sibling(&self, kind: ResourceKind, name: &str) -> Self {
        Self::new(&self.subscription, &self.group, kind, &[name])
    }

    /// The parent of a child resource.
    pub(crate) fn parent(&self) -> Option<Self> {
        let types: Vec<&str> = self.kind.types().split('/').collect();
        let (_, above) = types.split_last()?;
        let kind = ResourceKind::find(self.kind.namespace(), above)?;
        let (_, names) = self.names.split_last()?;
        Some(Self { subscription: self.subscription.clone(), group: self.group.clone(), kind, names: names.to_vec() })
    }
}

impl std::fmt::Display for ResourceId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "/subscriptions/{}/resourceGroups/{}/providers/{}",
            self.subscription,
            self.group,
            self.kind.namespace()
        )?;
        for (part, name) in self.kind.types().split('/').zip(&self.names) {
            write!(f, "/{part}/{name}")?;
        }
        Ok(())
    }
}

/// The target of a request path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    Endpoints,
    Subscriptions,
    Tenants,
    Subscription(String),
    Locations(String),
    Groups(String),
    Group {
        subscription: String,
        group: String,
    },
    /// All resources of a subscription or group.
    Resources {
        subscription: String,
        group: Option<String>,
    },
    /// All resources of one type in a subscription, in a group or below a parent.
    Collection {
        subscription: String,
        group: Option<String>,
        kind: ResourceKind,
        parents: Vec<String>,
    },
    Resource(ResourceId),
    /// A verb (`start`) or view (`instanceView`) of a resource.
    Action {
        id: ResourceId,
        action: String,
    },
    /// The status of a long-running operation.
    Operation {
        subscription: String,
        /// `operations`, `DiskOperations` or `capsOperations`.
        list: String,
        id: String,
    },
    /// A list per provider and subscription, such as `skus`.
    ProviderList {
        subscription: String,
        namespace: String,
        list: String,
    },
    /// The versions of a community image in a region.
    CommunityVersions {
        subscription: String,
        location: String,
        gallery: String,
        definition: String,
    },
    /// Something below `sharedGalleries` or `communityGalleries` of a region.
    SharedGallery {
        subscription: String,
        location: String,
        community: bool,
        path: Vec<String>,
    },
    /// AKS node images in a region.
    NodeImages {
        subscription: String,
    },
    /// The registration of a provider.
    Provider {
        subscription: String,
        namespace: Option<String>,
    },
    /// The caller's permissions at a scope.
    Permissions {
        scope: String,
    },
    /// The locks at, above and below a scope.
    Locks {
        scope: String,
    },
    /// A resource type that is not simulated.
    UnknownType {
        namespace: String,
        types: String,
    },
}

impl Target {
    /// Parses a path. Returns `None` if ARM has no such path.
    pub(crate) fn parse(path: &str) -> Option<Self> {
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let is = |index: usize, word: &str| parts.get(index).is_some_and(|part| part.eq_ignore_ascii_case(word));
        if is(0, "tenants") && parts.len() == 1 {
            return Some(Self::Tenants);
        }
        if !is(0, "subscriptions") {
            return None;
        }
        if parts.len() >= 4 && is(parts.len() - 2, "Microsoft.Authorization") {
            let scope = format!("/{}", parts[..parts.len() - 3].join("/"));
            match parts[parts.len() - 1].to_ascii_lowercase().as_str() {
                "permissions" => return Some(Self::Permissions { scope }),
                "locks" => return Some(Self::Locks { scope }),
                _ => {}
            }
        }
        let Some(&subscription) = parts.get(1) else { return Some(Self::Subscriptions) };
        let subscription = subscription.to_owned();
        if parts.len() == 2 {
            return Some(Self::Subscription(subscription));
        }
        if is(2, "locations") && parts.len() == 3 {
            return Some(Self::Locations(subscription));
        }
        if is(2, "resources") && parts.len() == 3 {
            return Some(Self::Resources { subscription, group: None });
        }
        if is(2, "providers") {
            return Self::below_provider(&parts[3..], subscription, None);
        }
        if !is(2, "resourceGroups") {
            return None;
        }
        let Some(&group) = parts.get(3) else { return Some(Self::Groups(subscription)) };
        let group = group.to_owned();
        match parts.len() {
            4 => Some(Self::Group { subscription, group }),
            5 if is(4, "resources") => Some(Self::Resources { subscription, group: Some(group) }),
            _ if is(4, "providers") => Self::below_provider(&parts[5..], subscription, Some(group)),
            _ => None,
        }
    }

    fn below_provider(parts: &[&str], subscription: String, group: Option<String>) -> Option<Self> {
        let Some((&namespace, rest)) = parts.split_first() else {
            return Some(Self::Provider { subscription, namespace: None });
        };
        match rest {
            [] => return Some(Self::Provider { subscription, namespace: Some(namespace.to_owned()) }),
            [locations, location, galleries, gallery, _, definition, versions]
                if locations.eq_ignore_ascii_case("locations")
                    && galleries.eq_ignore_ascii_case("communityGalleries")
                    && versions.eq_ignore_ascii_case("versions") =>
            {
                let [location, gallery, definition] = [location, gallery, definition].map(|name| (*name).to_owned());
                return Some(Self::CommunityVersions { subscription, location, gallery, definition });
            }
            [locations, location, list, path @ ..]
                if locations.eq_ignore_ascii_case("locations")
                    && (list.eq_ignore_ascii_case("sharedGalleries")
                        || list.eq_ignore_ascii_case("communityGalleries") && !path.is_empty()) =>
            {
                return Some(Self::SharedGallery {
                    subscription,
                    location: (*location).to_owned(),
                    community: list.eq_ignore_ascii_case("communityGalleries"),
                    path: path.iter().map(|&part| part.to_owned()).collect(),
                });
            }
            [locations, _, list]
                if locations.eq_ignore_ascii_case("locations") && list.eq_ignore_ascii_case("nodeImageVersions") =>
            {
                return Some(Self::NodeImages { subscription });
            }
            [locations, _, list, id] if locations.eq_ignore_ascii_case("locations") => {
                let [list, id] = [list, id].map(|name| (*name).to_owned());
                return Some(Self::Operation { subscription, list, id });
            }
            [list] if list.eq_ignore_ascii_case("skus") => {
                return Some(Self::ProviderList {
                    subscription,
                    namespace: namespace.to_owned(),
                    list: (*list).to_owned(),
                });
            }
            _ => {}
        }
        let types: Vec<&str> = rest.iter().copied().step_by(2).collect();
        let names: Vec<String> = rest.iter().skip(1).step_by(2).map(|&name| name.to_owned()).collect();
        let odd = rest.len() % 2 == 1;
        if let Some(kind) = ResourceKind::find(namespace, &types) {
            return Some(match (odd, group) {
                (true, group) => Self::Collection { subscription, group, kind, parents: names },
                (false, Some(group)) => Self::Resource(ResourceId { subscription, group, kind, names }),
                (false, None) => return None,
            });
        }
        // `…/name/verb`: an odd number of parts whose last one is not a type.
        if odd
            && let (Some((verb, types)), Some(group)) = (types.split_last(), group)
            && let Some(kind) = ResourceKind::find(namespace, types)
        {
            return Some(Self::Action {
                id: ResourceId { subscription, group, kind, names },
                action: verb.to_ascii_lowercase(),
            });
        }
        Some(Self::UnknownType { namespace: namespace.to_owned(), types: types.join("/") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_case_insensitive_and_print_in_azures_spelling() {
        let text = "/SUBSCRIPTIONS/s/resourcegroups/G/providers/microsoft.compute/VIRTUALMACHINESCALESETS/Pool/virtualmachines/0";
        let id = ResourceId::parse(text).expect("an id");
        assert_eq!(
            id.to_string(),
            "/subscriptions/s/resourceGroups/G/providers/Microsoft.Compute/virtualMachineScaleSets/Pool/virtualMachines/0"
        );
        assert_eq!(id.kind, ResourceKind::Instance);
        assert_eq!(id.parent().expect("a parent").name(), "Pool");
    }

    #[test]
    fn verbs_lists_and_operations_are_distinguished() {
        let base = "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/virtualMachineScaleSets";
        assert!(matches!(Target::parse(base), Some(Target::Collection { kind: ResourceKind::ScaleSet, .. })));
        assert!(matches!(
            Target::parse(&format!("{base}/p/virtualMachines")),
            Some(Target::Collection { kind: ResourceKind::Instance, .. })
        ));
        assert!(
            matches!(Target::parse(&format!("{base}/p/powerOff")), Some(Target::Action { action, .. }) if action == "poweroff")
        );
        assert!(
            matches!(Target::parse(&format!("{base}/p/virtualMachines/0/start")), Some(Target::Action { id, .. }) if id.kind == ResourceKind::Instance)
        );
        let operation = "/subscriptions/s/providers/Microsoft.Compute/locations/westus2/operations/42";
        assert_eq!(
            Target::parse(operation),
            Some(Target::Operation { subscription: "s".into(), list: "operations".into(), id: "42".into() })
        );
        assert!(matches!(
            Target::parse("/subscriptions/s/resourceGroups/g/providers/Microsoft.Foo/bars/b"),
            Some(Target::UnknownType { .. })
        ));
        assert_eq!(Target::parse("/favicon.ico"), None);
    }
}
