//! Karpenter's drift rules, and one deviation that avoids a replacement loop.

use kiln_aks_formats::karpenter::{
    AksNodeClass, Condition, HASH_ANNOTATION, HASH_VERSION_ANNOTATION, Image, KUBELET_IDENTITY_LABEL, NodeClaim,
};
use kiln_bootstrap::node_drift::{DriftError, Node, Reason, machine_reason, reason};

struct Case {
    claim: NodeClaim,
    class: Option<AksNodeClass>,
    node: Option<Node>,
    identity: &'static str,
}

fn without_drift() -> Case {
    let mut claim = NodeClaim::default();
    let mut class = AksNodeClass::default();
    for meta in [&mut claim.metadata, &mut class.metadata] {
        meta.annotations.insert(HASH_ANNOTATION.to_owned(), "1".to_owned());
        meta.annotations.insert(HASH_VERSION_ANNOTATION.to_owned(), "v3".to_owned());
    }
    claim.status.provider_id = "azure:///x".into();
    claim.status.node_name = "n".into();
    claim.status.image_id = "image".into();
    class.status.images = vec![Image { id: "image".to_owned(), ..Image::default() }];
    class.status.kubernetes_version = Some("1.33.7".to_owned());
    for kind in ["ImagesReady", "KubernetesVersionReady"] {
        class.status.conditions.push(Condition {
            kind: kind.to_owned(),
            status: "True".to_owned(),
            ..Condition::default()
        });
    }
    let labels = [(KUBELET_IDENTITY_LABEL.to_owned(), "id".to_owned())].into();
    let node = Node { kubelet_version: "v1.33.7".to_owned(), labels, deleting: false };
    Case { claim, class: Some(class), node: Some(node), identity: "id" }
}

fn decide(change: impl FnOnce(&mut Case)) -> Result<Option<Reason>, DriftError> {
    let mut case = without_drift();
    change(&mut case);
    reason(&case.claim, case.class.as_ref(), case.node.as_ref(), case.identity)
}

fn class(case: &mut Case) -> &mut AksNodeClass {
    case.class.as_mut().unwrap()
}

fn unready(case: &mut Case, kind: &str) {
    class(case).status.conditions.retain(|condition| condition.kind != kind);
}

/// Evaluates a row of the recorded table.
fn evaluate(when: &str) -> Result<Option<Reason>, DriftError> {
    match when {
        "nothing changed" => decide(|_| {}),
        "nodeclass missing" => decide(|case| case.class = None),
        "nodeclaim without providerID" => decide(|case| case.claim.status.provider_id.clear()),
        "hash annotation differs, same hash version" => decide(|case| {
            class(case).metadata.annotations.insert(HASH_ANNOTATION.to_owned(), "2".to_owned());
        }),
        "hash annotation differs, different hash version" => decide(|case| {
            class(case).metadata.annotations.insert(HASH_ANNOTATION.to_owned(), "2".to_owned());
            class(case).metadata.annotations.insert(HASH_VERSION_ANNOTATION.to_owned(), "v4".to_owned());
        }),
        "any of the 4 annotations missing" => decide(|case| {
            class(case).metadata.annotations.insert(HASH_ANNOTATION.to_owned(), "2".to_owned());
            case.claim.metadata.annotations.remove(HASH_VERSION_ANNOTATION);
        }),
        "KubernetesVersionReady not true, or version empty" => decide(|case| {
            case.node.as_mut().unwrap().kubelet_version = "v1.30.0".into();
            unready(case, "KubernetesVersionReady");
        }),
        "node not found / nodeName empty / node deleting" => decide(|case| {
            let node = case.node.as_mut().unwrap();
            node.kubelet_version = "v1.30.0".into();
            node.deleting = true;
        }),
        "node kubeletVersion (v stripped) != nodeclass status version" => {
            decide(|case| case.node.as_mut().unwrap().kubelet_version = "v1.33.6".into())
        }
        "node lacks kubelet identity label" => decide(|case| case.node.as_mut().unwrap().labels.clear()),
        "label kubernetes.azure.com/kubelet-identity-client-id != option" => decide(|case| case.identity = "other"),
        "ImagesReady not true" => decide(|case| {
            case.claim.status.image_id = "old".into();
            unready(case, "ImagesReady");
        }),
        "images list empty while ready" => decide(|case| class(case).status.images.clear()),
        "nodeClaim.status.imageID empty" => decide(|case| case.claim.status.image_id.clear()),
        "imageID not in nodeclass.status.images" => decide(|case| case.claim.status.image_id = "old".into()),
        "AKS machine driftAction Synced or empty" => Ok(machine_reason("Synced").or(machine_reason(""))),
        "AKS machine driftAction Recreate or unknown" => Ok(machine_reason("Recreate").and(machine_reason("Whatever"))),
        other => panic!("unknown row {other}"),
    }
}

pub(crate) const TABLE: [(&str, Option<&str>); 17] = [
    ("nothing changed", Some("")),
    ("nodeclass missing", Some("")),
    ("nodeclaim without providerID", None),
    ("hash annotation differs, same hash version", Some("NodeClassDrift")),
    ("hash annotation differs, different hash version", Some("")),
    ("any of the 4 annotations missing", Some("")),
    ("KubernetesVersionReady not true, or version empty", Some("")),
    ("node not found / nodeName empty / node deleting", Some("")),
    ("node kubeletVersion (v stripped) != nodeclass status version", Some("K8sVersionDrift")),
    ("node lacks kubelet identity label", Some("")),
    ("label kubernetes.azure.com/kubelet-identity-client-id != option", Some("KubeletIdentityDrift")),
    ("ImagesReady not true", Some("")),
    ("images list empty while ready", None),
    ("nodeClaim.status.imageID empty", None),
    ("imageID not in nodeclass.status.images", Some("ImageDrift")),
    ("AKS machine driftAction Synced or empty", Some("")),
    ("AKS machine driftAction Recreate or unknown", Some("ClusterConfigDrift")),
];

#[test]
fn drift_follows_the_table() {
    for (when, want) in TABLE {
        let got = evaluate(when).ok().map(|reason| reason.map_or("", Reason::as_str));
        assert_eq!(got, want, "{when}");
    }
}

#[test]
fn newer_node_is_not_replaced() {
    assert_eq!(decide(|case| case.node.as_mut().unwrap().kubelet_version = "v1.33.8".into()), Ok(None));
    assert_eq!(decide(|case| case.node.as_mut().unwrap().kubelet_version = "v1.34.0".into()), Ok(None));
    assert_eq!(
        decide(|case| case.node.as_mut().unwrap().kubelet_version = "v1.32.9".into()),
        Ok(Some(Reason::KubernetesVersion))
    );
}

#[test]
fn first_reason_wins() {
    let both = decide(|case| {
        case.identity = "other";
        case.claim.status.image_id = "old".into();
        class(case).metadata.annotations.insert(HASH_ANNOTATION.to_owned(), "2".to_owned());
    });
    assert_eq!(both, Ok(Some(Reason::NodeClass)));
}
