//! Karpenter's pool and claim.

use std::collections::BTreeMap;

use kiln_aks_formats::karpenter::{NodeClaim, NodePool, Requirement, Taint};
use serde_json::Value;

use super::{SourceError, annotations, expect_kind};
use crate::document::Document;
use crate::kind::Kind;
use crate::layer::Layer;

/// Requirements that settle a field, which is a label of the node too.
pub(crate) const SETTLING: [(&str, &str); 4] = [
    ("kubernetes.io/arch", "arch"),
    ("node.kubernetes.io/instance-type", "vmSize"),
    ("topology.kubernetes.io/zone", "zone"),
    ("karpenter.sh/capacity-type", "capacityType"),
];

/// The layer of a pool.
pub fn node_pool(document: &Document) -> Result<Layer, SourceError> {
    expect_kind(document, "NodePool")?;
    let pool: NodePool = document.parse()?;
    let mut layer = Layer::new(Kind::NodePool);
    if !pool.metadata.name.is_empty() {
        layer.set("nodePoolName", pool.metadata.name.into(), document.place("metadata.name"))?;
    }
    let template = pool.spec.template;
    let at = At { document, labels: "spec.template.metadata.labels", spec: "spec.template.spec" };
    at.labels(&template.metadata.labels, &template.spec.requirements, &mut layer)?;
    at.taints(&template.spec.taints, &template.spec.startup_taints, &mut layer)?;
    at.requirements(&template.spec.requirements, &mut layer)?;
    annotations(document, &mut layer)?;
    Ok(layer)
}

/// The layer of a claim: it has what its pool says, and what was settled since.
pub fn node_claim(document: &Document) -> Result<Layer, SourceError> {
    expect_kind(document, "NodeClaim")?;
    let claim: NodeClaim = document.parse()?;
    let mut layer = Layer::new(Kind::NodePool);
    let at = At { document, labels: "metadata.labels", spec: "spec" };
    at.labels(&claim.metadata.labels, &claim.spec.requirements, &mut layer)?;
    at.taints(&claim.spec.taints, &claim.spec.startup_taints, &mut layer)?;
    at.requirements(&claim.spec.requirements, &mut layer)?;
    annotations(document, &mut layer)?;
    Ok(layer)
}

struct At<'a> {
    document: &'a Document,
    labels: &'static str,
    spec: &'static str,
}

impl At<'_> {
    /// Labels, and apart from them requirements that leave one value: they stand elsewhere.
    fn labels(
        &self,
        labels: &BTreeMap<String, String>,
        requirements: &[Requirement],
        layer: &mut Layer,
    ) -> Result<(), SourceError> {
        let others = requirements.iter().filter(|one| SETTLING.iter().all(|(key, _)| *key != one.key));
        let settled: BTreeMap<String, String> =
            others.filter_map(|one| Some((one.key.clone(), one.single()?.to_owned()))).collect();
        let both = [
            ("labels", labels, self.labels.to_owned()),
            ("requirementLabels", &settled, format!("{}.requirements", self.spec)),
        ];
        for (field, labels, path) in both {
            if !labels.is_empty() {
                let map = labels.iter().map(|(key, value)| (key.clone(), Value::from(value.as_str()))).collect();
                layer.set(field, Value::Object(map), self.document.place(&path))?;
            }
        }
        Ok(())
    }

    fn taints(&self, taints: &[Taint], startup: &[Taint], layer: &mut Layer) -> Result<(), SourceError> {
        for (field, taints) in [("taints", taints), ("startupTaints", startup)] {
            if !taints.is_empty() {
                let list: Value = taints.iter().map(|taint| Value::from(taint.to_string())).collect();
                layer.set(field, list, self.document.place(&format!("{}.{field}", self.spec)))?;
            }
        }
        Ok(())
    }

    fn requirements(&self, requirements: &[Requirement], layer: &mut Layer) -> Result<(), SourceError> {
        for (index, requirement) in requirements.iter().enumerate() {
            let field = SETTLING.iter().find(|(key, _)| *key == requirement.key).map(|(_, field)| *field);
            if let (Some(field), Some(value)) = (field, requirement.single()) {
                layer.set(field, value.into(), self.document.place(&format!("{}.requirements[{index}]", self.spec)))?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POOL: &str = "\
apiVersion: karpenter.sh/v1
kind: NodePool
metadata:
  name: default
spec:
  template:
    metadata:
      labels: {team: a}
    spec:
      taints:
      - {key: dedicated, value: gpu, effect: NoSchedule}
      startupTaints:
      - {key: cilium, effect: NoExecute}
      requirements:
      - {key: kubernetes.io/arch, operator: In, values: [arm64]}
      - {key: karpenter.sh/capacity-type, operator: In, values: [spot, on-demand]}
      - {key: cost-centre, operator: In, values: [shop]}
";

    #[test]
    fn a_pool_sets_taints_labels_and_what_its_requirements_settle() {
        let layer = node_pool(&Document::read("p.yaml", POOL).unwrap()).unwrap();
        let find = |name: &str| layer.assignments.iter().find(|a| a.field == name);
        assert_eq!(find("taints").unwrap().value, serde_json::json!(["dedicated=gpu:NoSchedule"]));
        assert_eq!(find("startupTaints").unwrap().value, serde_json::json!(["cilium:NoExecute"]));
        assert_eq!(find("arch").unwrap().place.to_string(), "p.yaml:15 spec.template.spec.requirements[0]");
        assert_eq!(find("labels").unwrap().value, serde_json::json!({"team": "a"}));
        assert_eq!(find("requirementLabels").unwrap().value, serde_json::json!({"cost-centre": "shop"}));
        assert_eq!(find("capacityType"), None);
    }

    #[test]
    fn another_object_is_refused_by_its_kind() {
        let error = node_pool(&Document::read("p.yaml", "kind: NodeClaim\n").unwrap()).unwrap_err();
        assert_eq!(error.to_string(), "p.yaml:1:7: at `kind`: `NodeClaim` is not NodePool");
    }

    #[test]
    fn an_annotation_may_not_set_what_a_pool_may_not() {
        let text = "kind: NodePool\nmetadata:\n  annotations:\n    bootstrap.kiln.dev/tenantId: t\n";
        let error = node_pool(&Document::read("p.yaml", text).unwrap()).unwrap_err().to_string();
        assert!(error.contains("`tenantId` cannot be set by node pool"), "{error}");
    }
}
