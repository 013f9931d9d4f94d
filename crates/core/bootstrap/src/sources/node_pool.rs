//! Karpenter's `NodePool` and `NodeClaim` as sources.

use std::collections::BTreeMap;

use kiln_aks_formats::karpenter::{NodeClaim, NodePool, Requirement, Taint};
use serde_json::Value;

use super::{SourceError, annotations, expect_kind};
use crate::document::Document;
use crate::provenance::SourceKind;
use crate::source::Source;

/// Requirements that set a field if they allow exactly one value. They are node labels too.
pub(crate) const REQUIREMENT_FIELDS: [(&str, &str); 4] = [
    ("kubernetes.io/arch", "arch"),
    ("node.kubernetes.io/instance-type", "vmSize"),
    ("topology.kubernetes.io/zone", "zone"),
    ("karpenter.sh/capacity-type", "capacityType"),
];

/// Returns the source of a pool.
pub fn node_pool(document: &Document) -> Result<Source, SourceError> {
    expect_kind(document, "NodePool")?;
    let pool: NodePool = document.parse()?;
    let mut source = Source::new(SourceKind::NodePool);
    if !pool.metadata.name.is_empty() {
        source.set("nodePoolName", pool.metadata.name.into(), document.position("metadata.name"))?;
    }
    let template = pool.spec.template;
    let paths = Paths { document, labels: "spec.template.metadata.labels", spec: "spec.template.spec" };
    paths.labels(&template.metadata.labels, &template.spec.requirements, &mut source)?;
    paths.taints(&template.spec.taints, &template.spec.startup_taints, &mut source)?;
    paths.requirements(&template.spec.requirements, &mut source)?;
    annotations(document, &mut source)?;
    Ok(source)
}

/// Returns the source of a claim, which has the values of its pool with narrowed requirements.
pub fn node_claim(document: &Document) -> Result<Source, SourceError> {
    expect_kind(document, "NodeClaim")?;
    let claim: NodeClaim = document.parse()?;
    let mut source = Source::new(SourceKind::NodePool);
    let paths = Paths { document, labels: "metadata.labels", spec: "spec" };
    paths.labels(&claim.metadata.labels, &claim.spec.requirements, &mut source)?;
    paths.taints(&claim.spec.taints, &claim.spec.startup_taints, &mut source)?;
    paths.requirements(&claim.spec.requirements, &mut source)?;
    annotations(document, &mut source)?;
    Ok(source)
}

struct Paths<'a> {
    document: &'a Document,
    labels: &'static str,
    spec: &'static str,
}

impl Paths<'_> {
    /// Adds labels, and requirements with one value in a separate field, because their position differs.
    fn labels(
        &self,
        labels: &BTreeMap<String, String>,
        requirements: &[Requirement],
        source: &mut Source,
    ) -> Result<(), SourceError> {
        let others = requirements.iter().filter(|one| REQUIREMENT_FIELDS.iter().all(|(key, _)| *key != one.key));
        let required: BTreeMap<String, String> =
            others.filter_map(|one| Some((one.key.clone(), one.single()?.to_owned()))).collect();
        let both = [
            ("labels", labels, self.labels.to_owned()),
            ("requirementLabels", &required, format!("{}.requirements", self.spec)),
        ];
        for (field, labels, path) in both {
            if !labels.is_empty() {
                let map = labels.iter().map(|(key, value)| (key.clone(), Value::from(value.as_str()))).collect();
                source.set(field, Value::Object(map), self.document.position(&path))?;
            }
        }
        Ok(())
    }

    fn taints(&self, taints: &[Taint], startup: &[Taint], source: &mut Source) -> Result<(), SourceError> {
        for (field, taints) in [("taints", taints), ("startupTaints", startup)] {
            if !taints.is_empty() {
                let list: Value = taints.iter().map(|taint| Value::from(taint.to_string())).collect();
                source.set(field, list, self.document.position(&format!("{}.{field}", self.spec)))?;
            }
        }
        Ok(())
    }

    fn requirements(&self, requirements: &[Requirement], source: &mut Source) -> Result<(), SourceError> {
        for (index, requirement) in requirements.iter().enumerate() {
            let field = REQUIREMENT_FIELDS.iter().find(|(key, _)| *key == requirement.key).map(|(_, field)| *field);
            if let (Some(field), Some(value)) = (field, requirement.single()) {
                source.set(
                    field,
                    value.into(),
                    self.document.position(&format!("{}.requirements[{index}]", self.spec)),
                )?;
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
    fn pool_sets_taints_labels_and_requirements_with_one_value() {
        let source = node_pool(&Document::read("p.yaml", POOL).unwrap()).unwrap();
        let find = |name: &str| source.assignments.iter().find(|a| a.field == name);
        assert_eq!(find("taints").unwrap().value, serde_json::json!(["dedicated=gpu:NoSchedule"]));
        assert_eq!(find("startupTaints").unwrap().value, serde_json::json!(["cilium:NoExecute"]));
        assert_eq!(find("arch").unwrap().position.to_string(), "p.yaml:15 spec.template.spec.requirements[0]");
        assert_eq!(find("labels").unwrap().value, serde_json::json!({"team": "a"}));
        assert_eq!(find("requirementLabels").unwrap().value, serde_json::json!({"cost-centre": "shop"}));
        assert_eq!(find("capacityType"), None);
    }

    #[test]
    fn object_of_wrong_kind_is_rejected() {
        let error = node_pool(&Document::read("p.yaml", "kind: NodeClaim\n").unwrap()).unwrap_err();
        assert_eq!(error.to_string(), "p.yaml:1:7: at `kind`: expected NodePool, found `NodeClaim`");
    }

    #[test]
    fn annotations_are_restricted_to_fields_of_their_source() {
        let text = "kind: NodePool\nmetadata:\n  annotations:\n    bootstrap.kiln.dev/tenantId: t\n";
        let error = node_pool(&Document::read("p.yaml", text).unwrap()).unwrap_err().to_string();
        assert!(error.contains("`tenantId` cannot be set by node pool"), "{error}");
    }
}
