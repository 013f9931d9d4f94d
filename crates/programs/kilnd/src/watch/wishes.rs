//! What only the cluster can do to a node's object, remembered until it is done.
//!
//! A document in force is no longer different from itself, so what changed with it is written down when it is put in force, and crossed
//! out when the node's object shows it.

use std::collections::BTreeMap;

use kiln_node_client::Node;
use kiln_node_plan::Ask;
use kiln_node_plan::labels::node_may_set;
use serde::{Deserialize, Serialize};

/// What the beginning of every annotation of pending things is.
const PENDING: &str = "kiln.dev/pending-";
/// Everything that may be pending: an annotation each.
const KINDS: [&str; 7] = ["labels", "taints", "reload", "restart", "drain", "reboot", "replace"];

/// What only the cluster can do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Wishes {
    /// Labels to set, or to take away.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) labels: BTreeMap<String, Option<String>>,
    /// Taints by `key:effect`, to set with this value or to take away.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) taints: BTreeMap<String, Option<String>>,
    /// What must happen before a document can be put in force, `reload` to `replace`, and which document waits for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) act: Option<Waiting>,
    /// A document in force that is wholly so only after a restart of the machine, and the boot in which it came.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) restart: Option<(Waiting, String)>,
    /// The hash of the document that the machine restarted for last. It is not asked for again: where a restart does not help, a cluster
    /// that obeys would restart the machine for ever.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) restarted: Option<String>,
}

/// A document that waits for the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Waiting {
    /// What for.
    pub(super) kind: String,
    pub(super) generation: u64,
    pub(super) hash: String,
}

impl Wishes {
    /// Adds what a plan asks of the node's object.
    pub(super) fn add(&mut self, asks: &[Ask]) {
        for ask in asks {
            match ask {
                Ask::Labels { set, remove, .. } => {
                    self.labels.extend(set.iter().map(|(key, value)| (key.clone(), Some(value.clone()))));
                    self.labels.extend(remove.iter().map(|key| (key.clone(), None)));
                }
                Ask::Taints { set, remove } => {
                    let named =
                        |taint: &kiln_node_config::spec::Taint| format!("{}:{}", taint.key, taint.effect.as_str());
                    self.taints.extend(set.iter().map(|taint| (named(taint), Some(taint.value.clone()))));
                    self.taints.extend(remove.iter().map(|name| (name.clone(), None)));
                }
                Ask::Reload | Ask::Restart | Ask::Drain | Ask::Reboot | Ask::Replace => {}
            }
        }
    }

    /// A document waits for what its plan asks of the cluster.
    pub(super) fn wait(&mut self, asks: &[Ask], generation: u64, hash: &str) {
        let kind = asks.iter().find_map(|ask| match ask {
            Ask::Reload => Some("reload"),
            Ask::Restart => Some("restart"),
            Ask::Drain => Some("drain"),
            Ask::Reboot => Some("reboot"),
            Ask::Replace => Some("replace"),
            Ask::Labels { .. } | Ask::Taints { .. } => None,
        });
        self.act = kind.map(|kind| Waiting { kind: kind.to_owned(), generation, hash: hash.to_owned() });
    }

    /// A document is in force, and wholly so after a restart of the machine. False where that was asked for, and happened.
    pub(super) fn restart(&mut self, generation: u64, hash: &str, boot: &str) -> bool {
        if self.restarted.as_deref() == Some(hash) {
            return false;
        }
        let waiting = Waiting { kind: "reboot".to_owned(), generation, hash: hash.to_owned() };
        self.restart = Some((waiting, boot.to_owned()));
        true
    }

    /// This is the boot that the machine is in: a restart that was asked for in another one has happened.
    pub(super) fn booted(&mut self, boot: &str) {
        if let Some((waiting, _)) = self.restart.take_if(|(_, asked_in)| asked_in != boot) {
            self.restarted = Some(waiting.hash);
        }
    }

    /// Crosses out what the node's object shows.
    pub(super) fn cross_out(&mut self, node: &Node) {
        self.labels.retain(|key, value| node.labels.get(key) != value.as_ref());
        self.taints.retain(|name, value| {
            let is = node.taints.iter().find(|taint| format!("{}:{}", taint.key, taint.effect) == *name);
            is.map(|taint| &taint.value) != value.as_ref()
        });
    }

    /// Labels that the node may change itself.
    pub(super) fn own_labels(&self) -> BTreeMap<String, Option<String>> {
        self.labels
            .iter()
            .filter(|(key, _)| node_may_set(key))
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect()
    }

    /// The annotations that say what is pending; none for those that say nothing any more.
    pub(super) fn annotations(&self) -> BTreeMap<String, Option<String>> {
        let lines = self.pending();
        KINDS.iter().map(|kind| (format!("{PENDING}{kind}"), lines.get(*kind).cloned())).collect()
    }

    /// What is pending, for people.
    pub(super) fn lines(&self) -> Vec<String> {
        self.pending().into_iter().map(|(kind, what)| format!("{kind}: {what}")).collect()
    }

    fn pending(&self) -> BTreeMap<&str, String> {
        let mut pending = BTreeMap::new();
        let others = self.labels.iter().filter(|(key, _)| !node_may_set(key));
        let labels: Vec<String> = others
            .map(|(key, value)| value.as_ref().map_or_else(|| format!("{key}-"), |value| format!("{key}={value}")))
            .collect();
        let taints: Vec<String> = self.taints.iter().map(|(name, value)| spelled(name, value.as_deref())).collect();
        if !labels.is_empty() {
            pending.insert("labels", labels.join(","));
        }
        if !taints.is_empty() {
            pending.insert("taints", taints.join(","));
        }
        for act in self.restart.iter().map(|(act, _)| act).chain(&self.act) {
            pending.insert(act.kind.as_str(), format!("generation {} ({})", act.generation, act.hash));
        }
        pending
    }
}

/// As `kubectl taint` spells it, so that people can paste it.
fn spelled(name: &str, value: Option<&str>) -> String {
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

    fn labels(set: &[(&str, &str)], remove: &[&str]) -> Ask {
        Ask::Labels {
            set: set.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
            remove: remove.iter().map(|key| (*key).to_owned()).collect(),
            by_node: false,
        }
    }

    fn taint() -> Ask {
        let taint =
            Taint { key: "gpu".to_owned(), value: "a".to_owned(), effect: TaintEffect::NoSchedule, ..Taint::default() };
        Ask::Taints { set: vec![taint], remove: vec!["old:NoExecute".to_owned()] }
    }

    fn said(wishes: &Wishes, kind: &str) -> Option<String> {
        wishes.annotations()[&format!("{PENDING}{kind}")].clone()
    }

    #[test]
    fn what_a_node_may_do_itself_is_never_shown_as_pending() {
        let mut wishes = Wishes::default();
        wishes.add(&[labels(&[("example.com/a", "1"), ("node-role.kubernetes.io/x", "y")], &["team"]), taint()]);
        assert_eq!(said(&wishes, "labels").as_deref(), Some("node-role.kubernetes.io/x=y"));
        assert_eq!(said(&wishes, "taints").as_deref(), Some("gpu=a:NoSchedule,old:NoExecute-"));
        assert_eq!(said(&wishes, "drain"), None);
        let own = wishes.own_labels();
        assert_eq!(own.keys().collect::<Vec<_>>(), ["example.com/a", "team"]);
        assert_eq!(own["team"], None);
    }

    #[test]
    fn what_the_node_shows_is_crossed_out_and_nothing_else() {
        let mut wishes = Wishes::default();
        wishes.add(&[labels(&[("a.kubernetes.io/x", "1"), ("b.kubernetes.io/x", "1")], &["c"]), taint()]);
        let mut node = Node::default();
        node.labels.insert("a.kubernetes.io/x".to_owned(), "1".to_owned());
        node.labels.insert("b.kubernetes.io/x".to_owned(), "another".to_owned());
        wishes.cross_out(&node);
        assert_eq!(wishes.labels.keys().collect::<Vec<_>>(), ["b.kubernetes.io/x"], "one shown, one gone already");
        assert_eq!(wishes.taints.keys().collect::<Vec<_>>(), ["gpu:NoSchedule"]);
        let taint = |value: &str| kiln_types::Taint {
            key: "gpu".to_owned(),
            value: value.to_owned(),
            effect: "NoSchedule".to_owned(),
        };
        node.taints = vec![taint("b")];
        wishes.cross_out(&node);
        assert_eq!(wishes.taints.len(), 1, "another value is another taint");
        node.taints = vec![taint("a")];
        wishes.cross_out(&node);
        assert!(wishes.taints.is_empty());
    }

    #[test]
    fn the_last_word_on_a_label_counts_and_going_back_takes_the_wish_back() {
        let mut wishes = Wishes::default();
        wishes.add(&[labels(&[("x.k8s.io/a", "1")], &[])]);
        wishes.add(&[labels(&[("x.k8s.io/a", "2")], &[])]);
        assert_eq!(said(&wishes, "labels").as_deref(), Some("x.k8s.io/a=2"));
        wishes.add(&[labels(&[], &["x.k8s.io/a"])]);
        wishes.cross_out(&Node::default());
        assert_eq!(wishes, Wishes::default());
    }

    #[test]
    fn a_document_that_waits_says_what_for_and_survives_a_restart() {
        let mut wishes = Wishes::default();
        wishes.wait(&[taint(), Ask::Drain], 8, "abc");
        assert_eq!(said(&wishes, "drain").as_deref(), Some("generation 8 (abc)"));
        assert_eq!(wishes.lines(), ["drain: generation 8 (abc)"]);
        let text = serde_json::to_string(&wishes).expect("json");
        assert_eq!(serde_json::from_str::<Wishes>(&text).expect("read"), wishes);
        wishes.wait(&[Ask::Restart], 9, "def");
        assert_eq!((said(&wishes, "drain"), said(&wishes, "restart").as_deref()), (None, Some("generation 9 (def)")));
        wishes.wait(&[], 10, "ghi");
        assert_eq!(said(&wishes, "restart"), None);
    }

    #[test]
    fn a_restart_is_asked_for_until_the_machine_is_in_another_boot() {
        let mut wishes = Wishes::default();
        wishes.restart(8, "abc", "boot-1");
        wishes.booted("boot-1");
        wishes.wait(&[Ask::Drain], 9, "def");
        assert_eq!(said(&wishes, "reboot").as_deref(), Some("generation 8 (abc)"));
        assert_eq!(said(&wishes, "drain").as_deref(), Some("generation 9 (def)"));
        wishes.booted("boot-2");
        assert_eq!(said(&wishes, "reboot"), None);
        assert!(!wishes.restart(8, "abc", "boot-2"), "it has happened, and a second one would not help");
        assert_eq!(said(&wishes, "reboot"), None);
        assert!(wishes.restart(9, "def", "boot-2"));
        assert_eq!(said(&wishes, "reboot").as_deref(), Some("generation 9 (def)"));
    }
}
