//! Requests to the cluster, kept until they are fulfilled.
//!
//! Once a document is in force, a plan does not show its changes any more. So they are recorded when it is applied, and removed when the
//! Node object shows them.

use std::collections::BTreeMap;

use crate::apiserver::Node;
use kiln_node_plan::Request;
use kiln_node_plan::labels::node_may_set;
use serde::{Deserialize, Serialize};

/// Prefix of the annotations of pending requests.
const PENDING: &str = "kiln.dev/pending-";
/// Suffixes of these annotations.
const KINDS: [&str; 7] = ["labels", "taints", "reload", "restart", "drain", "reboot", "replace"];

/// Pending requests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Requests {
    /// Labels to set, or to remove (`None`).
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) labels: BTreeMap<String, Option<String>>,
    /// Taints by `key:effect`, to set with this value or to remove (`None`).
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) taints: BTreeMap<String, Option<String>>,
    /// A document that waits for `reload`, `restart`, `drain`, `reboot` or `replace`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) act: Option<PendingRequest>,
    /// A document in force that needs a reboot to take full effect, and the boot in which it was applied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) restart: Option<(PendingRequest, String)>,
    /// The hash of the document for which the machine rebooted last. The reboot is not requested again: if it did not help, the cluster would
    /// reboot the machine forever.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) restarted: Option<String>,
}

/// A document that waits for the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PendingRequest {
    pub(super) kind: String,
    pub(super) generation: u64,
    pub(super) hash: String,
}

impl Requests {
    /// Adds the label and taint requests of a plan.
    pub(super) fn add(&mut self, requests: &[Request]) {
        for request in requests {
            match request {
                Request::Labels { set, remove, .. } => {
                    self.labels.extend(set.iter().map(|(key, value)| (key.clone(), Some(value.clone()))));
                    self.labels.extend(remove.iter().map(|key| (key.clone(), None)));
                }
                Request::Taints { set, remove } => {
                    let named =
                        |taint: &kiln_node_config::spec::Taint| format!("{}:{}", taint.key, taint.effect.as_str());
                    self.taints.extend(set.iter().map(|taint| (named(taint), Some(taint.value.clone()))));
                    self.taints.extend(remove.iter().map(|name| (name.clone(), None)));
                }
                Request::Reload | Request::Restart | Request::Drain | Request::Reboot | Request::Replace => {}
            }
        }
    }

    /// Records that a document waits for the other requests of its plan.
    pub(super) fn wait_for(&mut self, requests: &[Request], generation: u64, hash: &str) {
        let kind = requests.iter().find_map(|request| match request {
            Request::Reload => Some("reload"),
            Request::Restart => Some("restart"),
            Request::Drain => Some("drain"),
            Request::Reboot => Some("reboot"),
            Request::Replace => Some("replace"),
            Request::Labels { .. } | Request::Taints { .. } => None,
        });
        self.act = kind.map(|kind| PendingRequest { kind: kind.to_owned(), generation, hash: hash.to_owned() });
    }

    /// Requests a reboot for a document in force. Returns false if the machine has rebooted for it already.
    pub(super) fn request_reboot(&mut self, generation: u64, hash: &str, boot: &str) -> bool {
        if self.restarted.as_deref() == Some(hash) {
            return false;
        }
        let pending = PendingRequest { kind: "reboot".to_owned(), generation, hash: hash.to_owned() };
        self.restart = Some((pending, boot.to_owned()));
        true
    }

    /// Sets the current boot. A reboot that was requested in another boot has happened.
    pub(super) fn note_boot(&mut self, boot: &str) {
        if let Some((done, _)) = self.restart.take_if(|(_, requested_in)| requested_in != boot) {
            self.restarted = Some(done.hash);
        }
    }

    /// Removes requests that the Node object fulfils.
    pub(super) fn remove_fulfilled(&mut self, node: &Node) {
        self.labels.retain(|key, value| node.labels.get(key) != value.as_ref());
        self.taints.retain(|name, value| {
            let current = node.taints.iter().find(|taint| format!("{}:{}", taint.key, taint.effect) == *name);
            current.map(|taint| &taint.value) != value.as_ref()
        });
    }

    /// Labels that the node may set itself.
    pub(super) fn own_labels(&self) -> BTreeMap<String, Option<String>> {
        self.labels
            .iter()
            .filter(|(key, _)| node_may_set(key))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect()
    }

    /// The annotations; `None` removes one that is not needed any more.
    pub(super) fn annotations(&self) -> BTreeMap<String, Option<String>> {
        let lines = self.pending();
        KINDS.iter().map(|kind| (format!("{PENDING}{kind}"), lines.get(*kind).cloned())).collect()
    }

    /// The requests as text.
    pub(super) fn lines(&self) -> Vec<String> {
        self.pending().into_iter().map(|(kind, what)| format!("{kind}: {what}")).collect()
    }

    fn pending(&self) -> BTreeMap<&str, String> {
        let mut pending = BTreeMap::new();
        let foreign = self.labels.iter().filter(|(key, _)| !node_may_set(key));
        let labels: Vec<String> = foreign
            .map(|(key, value)| value.as_ref().map_or_else(|| format!("{key}-"), |value| format!("{key}={value}")))
            .collect();
        let taints: Vec<String> = self.taints.iter().map(|(name, value)| taint_text(name, value.as_deref())).collect();
        if !labels.is_empty() {
            pending.insert("labels", labels.join(","));
        }
        if !taints.is_empty() {
            pending.insert("taints", taints.join(","));
        }
        for one in self.restart.iter().map(|(one, _)| one).chain(&self.act) {
            pending.insert(one.kind.as_str(), format!("generation {} ({})", one.generation, one.hash));
        }
        pending
    }
}

/// A taint in the form of `kubectl taint`.
fn taint_text(name: &str, value: Option<&str>) -> String {
    let (key, effect) = name.rsplit_once(':').unwrap_or((name, ""));
    match value {
        None => format!("{name}-"),
        Some("") => format!("{key}:{effect}"),
        Some(value) => format!("{key}={value}:{effect}"),
    }
}

#[cfg(test)]
mod tests {
    use kiln_node_config::spec::{Taint, TaintEffect};

    use super::*;

    fn labels(set: &[(&str, &str)], remove: &[&str]) -> Request {
        Request::Labels {
            set: set.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
            remove: remove.iter().map(|key| (*key).to_owned()).collect(),
            by_node: false,
        }
    }

    fn taint() -> Request {
        let taint =
            Taint { key: "gpu".to_owned(), value: "a".to_owned(), effect: TaintEffect::NoSchedule, ..Taint::default() };
        Request::Taints { set: vec![taint], remove: vec!["old:NoExecute".to_owned()] }
    }

    fn annotation(requests: &Requests, kind: &str) -> Option<String> {
        requests.annotations()[&format!("{PENDING}{kind}")].clone()
    }

    #[test]
    fn labels_that_the_node_may_set_are_not_pending() {
        let mut requests = Requests::default();
        requests.add(&[labels(&[("example.com/a", "1"), ("node-role.kubernetes.io/x", "y")], &["team"]), taint()]);
        assert_eq!(annotation(&requests, "labels").as_deref(), Some("node-role.kubernetes.io/x=y"));
        assert_eq!(annotation(&requests, "taints").as_deref(), Some("gpu=a:NoSchedule,old:NoExecute-"));
        assert_eq!(annotation(&requests, "drain"), None);
        let own = requests.own_labels();
        assert_eq!(own.keys().collect::<Vec<_>>(), ["example.com/a", "team"]);
        assert_eq!(own["team"], None);
    }

    #[test]
    fn fulfilled_requests_are_removed() {
        let mut requests = Requests::default();
        requests.add(&[labels(&[("a.kubernetes.io/x", "1"), ("b.kubernetes.io/x", "1")], &["c"]), taint()]);
        let mut node = Node::default();
        node.labels.insert("a.kubernetes.io/x".to_owned(), "1".to_owned());
        node.labels.insert("b.kubernetes.io/x".to_owned(), "another".to_owned());
        requests.remove_fulfilled(&node);
        assert_eq!(
            requests.labels.keys().collect::<Vec<_>>(),
            ["b.kubernetes.io/x"],
            "one is set, one is absent already"
        );
        assert_eq!(requests.taints.keys().collect::<Vec<_>>(), ["gpu:NoSchedule"]);
        let taint = |value: &str| kiln_types::Taint {
            key: "gpu".to_owned(),
            value: value.to_owned(),
            effect: "NoSchedule".to_owned(),
        };
        node.taints = vec![taint("b")];
        requests.remove_fulfilled(&node);
        assert_eq!(requests.taints.len(), 1, "the value differs");
        node.taints = vec![taint("a")];
        requests.remove_fulfilled(&node);
        assert!(requests.taints.is_empty());
    }

    #[test]
    fn later_request_for_a_label_replaces_the_earlier_one() {
        let mut requests = Requests::default();
        requests.add(&[labels(&[("x.k8s.io/a", "1")], &[])]);
        requests.add(&[labels(&[("x.k8s.io/a", "2")], &[])]);
        assert_eq!(annotation(&requests, "labels").as_deref(), Some("x.k8s.io/a=2"));
        requests.add(&[labels(&[], &["x.k8s.io/a"])]);
        requests.remove_fulfilled(&Node::default());
        assert_eq!(requests, Requests::default());
    }

    #[test]
    fn waiting_document_is_annotated_and_survives_a_restart() {
        let mut requests = Requests::default();
        requests.wait_for(&[taint(), Request::Drain], 8, "abc");
        assert_eq!(annotation(&requests, "drain").as_deref(), Some("generation 8 (abc)"));
        assert_eq!(requests.lines(), ["drain: generation 8 (abc)"]);
        let text = serde_json::to_string(&requests).expect("json");
        assert_eq!(serde_json::from_str::<Requests>(&text).expect("read"), requests);
        requests.wait_for(&[Request::Restart], 9, "def");
        assert_eq!(
            (annotation(&requests, "drain"), annotation(&requests, "restart").as_deref()),
            (None, Some("generation 9 (def)"))
        );
        requests.wait_for(&[], 10, "ghi");
        assert_eq!(annotation(&requests, "restart"), None);
    }

    #[test]
    fn reboot_is_requested_until_the_next_boot() {
        let mut requests = Requests::default();
        requests.request_reboot(8, "abc", "boot-1");
        requests.note_boot("boot-1");
        requests.wait_for(&[Request::Drain], 9, "def");
        assert_eq!(annotation(&requests, "reboot").as_deref(), Some("generation 8 (abc)"));
        assert_eq!(annotation(&requests, "drain").as_deref(), Some("generation 9 (def)"));
        requests.note_boot("boot-2");
        assert_eq!(annotation(&requests, "reboot"), None);
        assert!(!requests.request_reboot(8, "abc", "boot-2"), "the machine has rebooted for it already");
        assert_eq!(annotation(&requests, "reboot"), None);
        assert!(requests.request_reboot(9, "def", "boot-2"));
        assert_eq!(annotation(&requests, "reboot").as_deref(), Some("generation 9 (def)"));
    }
}
