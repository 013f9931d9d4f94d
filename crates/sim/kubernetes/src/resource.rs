//! The resources of the server. Each row has everything that discovery, paths and storage need. The rows of custom resources are made from
//! their definitions and interned.

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[expect(clippy::struct_excessive_bools, reason = "each is a column of the table below")]
pub(crate) struct Resource {
    pub(crate) object_kind: ObjectKind,
    /// Empty for the core group.
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) plural: &'static str,
    pub(crate) singular: &'static str,
    pub(crate) kind: &'static str,
    /// The kind of lists, if it is not the kind with `List` appended.
    pub(crate) list_kind: Option<&'static str>,
    pub(crate) namespaced: bool,
    pub(crate) short: &'static [&'static str],
    pub(crate) categories: &'static [&'static str],
    pub(crate) subresources: &'static [Subresource],
    /// Whether `metadata.generation` counts changes of `spec`.
    pub(crate) generation: bool,
    /// Whether a PUT creates a missing object.
    pub(crate) create_on_update: bool,
    /// Whether a PUT without `resourceVersion` overwrites the object.
    pub(crate) unconditional_update: bool,
    /// The field selectors that its definition declares.
    pub(crate) selectable: &'static [&'static str],
}

/// The only API version of every built-in group.
pub(crate) const VERSION: &str = "v1";

/// Identifies a resource in code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum ObjectKind {
    Namespace,
    Node,
    Pod,
    ConfigMap,
    Secret,
    /// An event of the core group, which is the stored form.
    Event,
    /// The same event in `events.k8s.io`.
    NewEvent,
    Lease,
    Budget,
    DaemonSet,
    ReplicaSet,
    VolumeAttachment,
    Service,
    /// `CustomResourceDefinition`.
    Definition,
    /// A custom resource, by its interned qualified name: all its versions are stored as one resource.
    Custom(&'static str),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Subresource {
    Status,
    Binding,
    Eviction,
}

impl Subresource {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Binding => "binding",
            Self::Eviction => "eviction",
        }
    }
}

const PLAIN: Resource = Resource {
    object_kind: ObjectKind::ConfigMap,
    group: "",
    version: VERSION,
    plural: "configmaps",
    singular: "configmap",
    kind: "ConfigMap",
    list_kind: None,
    namespaced: true,
    short: &["cm"],
    categories: &[],
    subresources: &[],
    generation: false,
    create_on_update: false,
    unconditional_update: true,
    selectable: &[],
};

use Subresource::{Binding, Eviction, Status};

/// All resources, in discovery order.
pub(crate) static RESOURCES: [Resource; 14] = [
    PLAIN,
    Resource {
        object_kind: ObjectKind::Event,
        plural: "events",
        singular: "event",
        kind: "Event",
        short: &["ev"],
        create_on_update: true,
        ..PLAIN
    },
    Resource {
        object_kind: ObjectKind::Namespace,
        plural: "namespaces",
        singular: "namespace",
        kind: "Namespace",
        namespaced: false,
        short: &["ns"],
        subresources: &[Status],
        ..PLAIN
    },
    Resource {
        object_kind: ObjectKind::Node,
        plural: "nodes",
        singular: "node",
        kind: "Node",
        namespaced: false,
        short: &["no"],
        subresources: &[Status],
        ..PLAIN
    },
    Resource {
        object_kind: ObjectKind::Pod,
        plural: "pods",
        singular: "pod",
        kind: "Pod",
        short: &["po"],
        categories: &["all"],
        subresources: &[Binding, Eviction, Status],
        ..PLAIN
    },
    Resource {
        object_kind: ObjectKind::Secret,
        plural: "secrets",
        singular: "secret",
        kind: "Secret",
        short: &[],
        ..PLAIN
    },
    Resource {
        object_kind: ObjectKind::Service,
        plural: "services",
        singular: "service",
        kind: "Service",
        short: &["svc"],
        categories: &["all"],
        subresources: &[Status],
        ..PLAIN
    },
    Resource {
        object_kind: ObjectKind::Definition,
        group: "apiextensions.k8s.io",
        plural: "customresourcedefinitions",
        singular: "customresourcedefinition",
        kind: "CustomResourceDefinition",
        namespaced: false,
        short: &["crd", "crds"],
        categories: &["api-extensions"],
        subresources: &[Status],
        generation: true,
        unconditional_update: false,
        ..PLAIN
    },
    Resource {
        object_kind: ObjectKind::DaemonSet,
        group: "apps",
        plural: "daemonsets",
        singular: "daemonset",
        kind: "DaemonSet",
        short: &["ds"],
        categories: &["all"],
        subresources: &[Status],
        generation: true,
        ..PLAIN
    },
    Resource {
        object_kind: ObjectKind::ReplicaSet,
        group: "apps",
        plural: "replicasets",
        singular: "replicaset",
        kind: "ReplicaSet",
        short: &["rs"],
        categories: &["all"],
        subresources: &[Status],
        generation: true,
        ..PLAIN
    },
    Resource {
        object_kind: ObjectKind::Lease,
        group: "coordination.k8s.io",
        plural: "leases",
        singular: "lease",
        kind: "Lease",
        short: &[],
        create_on_update: true,
        unconditional_update: false,
        ..PLAIN
    },
    Resource {
        object_kind: ObjectKind::NewEvent,
        group: "events.k8s.io",
        plural: "events",
        singular: "event",
        kind: "Event",
        short: &["ev"],
        create_on_update: true,
        ..PLAIN
    },
    Resource {
        object_kind: ObjectKind::Budget,
        group: "policy",
        plural: "poddisruptionbudgets",
        singular: "poddisruptionbudget",
        kind: "PodDisruptionBudget",
        short: &["pdb"],
        subresources: &[Status],
        generation: true,
        unconditional_update: false,
        ..PLAIN
    },
    Resource {
        object_kind: ObjectKind::VolumeAttachment,
        group: "storage.k8s.io",
        plural: "volumeattachments",
        singular: "volumeattachment",
        kind: "VolumeAttachment",
        namespaced: false,
        short: &[],
        subresources: &[Status],
        unconditional_update: false,
        ..PLAIN
    },
];

/// The built-in groups besides the core group, in discovery order.
pub(crate) const GROUPS: [&str; 7] = [
    "apiextensions.k8s.io",
    "apps",
    "authorization.k8s.io",
    "coordination.k8s.io",
    "events.k8s.io",
    "policy",
    "storage.k8s.io",
];

impl Resource {
    /// The built-in resource with this name.
    pub(crate) fn find(group: &str, plural: &str) -> Option<&'static Self> {
        RESOURCES.iter().find(|resource| resource.group == group && resource.plural == plural)
    }

    /// `pods`, or `leases.coordination.k8s.io`.
    pub(crate) fn qualified(&self) -> String {
        if self.group.is_empty() { self.plural.to_owned() } else { format!("{}.{}", self.plural, self.group) }
    }

    /// The `apiVersion` of its objects.
    pub(crate) fn api_version(&self) -> String {
        group_version(self.group, self.version)
    }

    /// The kind of its lists.
    pub(crate) fn list_kind(&self) -> String {
        self.list_kind.map_or_else(|| format!("{}List", self.kind), str::to_owned)
    }

    pub(crate) fn is_custom(&self) -> bool {
        matches!(self.object_kind, ObjectKind::Custom(_))
    }

    /// The resource that its objects are stored as.
    pub(crate) fn stored(&'static self) -> &'static Self {
        if self.object_kind == ObjectKind::NewEvent { ObjectKind::Event.resource() } else { self }
    }
}

impl ObjectKind {
    /// The row of a built-in resource. [`crate::store::Store::resource`] also finds custom resources.
    pub(crate) fn resource(self) -> &'static Resource {
        RESOURCES.iter().find(|resource| resource.object_kind == self).expect("every built-in kind has a row")
    }

    /// The first part of its storage keys: the plural of a built-in resource, the qualified name of a custom one. Only the latter has a
    /// dot.
    fn folder(self) -> &'static str {
        match self {
            Self::Custom(name) => name,
            _ => self.resource().plural,
        }
    }

    /// The storage key of an object.
    pub(crate) fn key(self, namespace: &str, name: &str) -> String {
        format!("{}/{namespace}/{name}", self.folder())
    }

    /// The prefix of the storage keys of all objects, or of those of one namespace.
    pub(crate) fn prefix(self, namespace: Option<&str>) -> String {
        match namespace {
            Some(namespace) => format!("{}/{namespace}/", self.folder()),
            None => format!("{}/", self.folder()),
        }
    }
}

/// `v1`, or `policy/v1`.
pub(crate) fn group_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}
