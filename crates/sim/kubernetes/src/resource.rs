//! The resources that the server has. All that discovery, paths and storage need to know of one is a row here.

/// A resource.
#[derive(Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is a column of the table below")]
pub(crate) struct Resource {
    pub(crate) sort: Sort,
    /// Empty for the core group.
    pub(crate) group: &'static str,
    pub(crate) plural: &'static str,
    pub(crate) singular: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) namespaced: bool,
    pub(crate) short: &'static [&'static str],
    pub(crate) categories: &'static [&'static str],
    pub(crate) subresources: &'static [Subresource],
    /// Counts the changes of its `spec` in `metadata.generation`.
    pub(crate) generation: bool,
    /// A PUT of what is not there makes it.
    pub(crate) create_on_update: bool,
    /// A PUT without `resourceVersion` overwrites what is there.
    pub(crate) unconditional_update: bool,
}

/// All versions here are the stable one.
pub(crate) const VERSION: &str = "v1";

/// Tells resources apart in code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Sort {
    Namespace,
    Node,
    Pod,
    ConfigMap,
    Secret,
    /// The core group's event, which is also how events are stored.
    Event,
    /// The same events as `events.k8s.io` shows them.
    NewEvent,
    Lease,
    Budget,
    DaemonSet,
    ReplicaSet,
}

/// What is below a resource's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
    sort: Sort::ConfigMap,
    group: "",
    plural: "configmaps",
    singular: "configmap",
    kind: "ConfigMap",
    namespaced: true,
    short: &["cm"],
    categories: &[],
    subresources: &[],
    generation: false,
    create_on_update: false,
    unconditional_update: true,
};

use Subresource::{Binding, Eviction, Status};

/// Every resource, in the order of discovery.
pub(crate) static RESOURCES: [Resource; 11] = [
    PLAIN,
    Resource {
        sort: Sort::Event,
        plural: "events",
        singular: "event",
        kind: "Event",
        short: &["ev"],
        create_on_update: true,
        ..PLAIN
    },
    Resource {
        sort: Sort::Namespace,
        plural: "namespaces",
        singular: "namespace",
        kind: "Namespace",
        namespaced: false,
        short: &["ns"],
        subresources: &[Status],
        ..PLAIN
    },
    Resource {
        sort: Sort::Node,
        plural: "nodes",
        singular: "node",
        kind: "Node",
        namespaced: false,
        short: &["no"],
        subresources: &[Status],
        ..PLAIN
    },
    Resource {
        sort: Sort::Pod,
        plural: "pods",
        singular: "pod",
        kind: "Pod",
        short: &["po"],
        categories: &["all"],
        subresources: &[Binding, Eviction, Status],
        ..PLAIN
    },
    Resource { sort: Sort::Secret, plural: "secrets", singular: "secret", kind: "Secret", short: &[], ..PLAIN },
    Resource {
        sort: Sort::DaemonSet,
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
        sort: Sort::ReplicaSet,
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
        sort: Sort::Lease,
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
        sort: Sort::NewEvent,
        group: "events.k8s.io",
        plural: "events",
        singular: "event",
        kind: "Event",
        short: &["ev"],
        create_on_update: true,
        ..PLAIN
    },
    Resource {
        sort: Sort::Budget,
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
];

/// The groups besides the core one, in the order of discovery.
pub(crate) const GROUPS: [&str; 5] = ["apps", "authorization.k8s.io", "coordination.k8s.io", "events.k8s.io", "policy"];

impl Resource {
    pub(crate) fn find(group: &str, plural: &str) -> Option<&'static Self> {
        RESOURCES.iter().find(|resource| resource.group == group && resource.plural == plural)
    }

    /// `pods`, or `leases.coordination.k8s.io`.
    pub(crate) fn qualified(&self) -> String {
        if self.group.is_empty() { self.plural.to_owned() } else { format!("{}.{}", self.plural, self.group) }
    }

    /// What objects say in `apiVersion`.
    pub(crate) fn api_version(&self) -> String {
        group_version(self.group)
    }

    /// The resource whose objects these are in storage.
    pub(crate) fn stored(&'static self) -> &'static Self {
        if self.sort == Sort::NewEvent { Sort::Event.resource() } else { self }
    }

    /// Key of an object in storage.
    pub(crate) fn key(&self, namespace: &str, name: &str) -> String {
        format!("{}/{namespace}/{name}", self.plural)
    }

    /// Prefix of the keys of all objects, or of those of one namespace.
    pub(crate) fn prefix(&self, namespace: Option<&str>) -> String {
        match namespace {
            Some(namespace) => format!("{}/{namespace}/", self.plural),
            None => format!("{}/", self.plural),
        }
    }
}

impl Sort {
    /// The row of this sort.
    pub(crate) fn resource(self) -> &'static Resource {
        RESOURCES.iter().find(|resource| resource.sort == self).expect("every sort has a row")
    }
}

/// `v1`, or `policy/v1`.
pub(crate) fn group_version(group: &str) -> String {
    if group.is_empty() { VERSION.to_owned() } else { format!("{group}/{VERSION}") }
}
