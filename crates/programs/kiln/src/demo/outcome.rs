//! The result of the demo, for text, JSON and HTML.

use serde::Serialize;

/// The result of the demo. Its JSON form is the output of `kiln demo --output json`.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Outcome {
    pub(super) pool: String,
    pub(super) donor: String,
    pub(super) version: String,
    /// A node created before the run.
    pub(super) before: Boot,
    /// A node created after the run.
    pub(super) after: Boot,
    pub(super) steps: Vec<StepTime>,
    /// Seconds from power-off to Ready.
    pub(super) donor_away: f64,
    pub(super) nodes: Vec<Node>,
    pub(super) rejected: Option<Rejected>,
}

/// The boot of a node.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Boot {
    pub(super) node: String,
    pub(super) seconds: f64,
    pub(super) stages: Vec<(String, f64)>,
    pub(super) kernel: String,
    pub(super) stale_packages: u32,
    pub(super) images_to_pull: u32,
}

/// One step of the run, with its simulated duration.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct StepTime {
    pub(super) name: String,
    pub(super) seconds: f64,
    /// Whether the run holds the donor during this step.
    pub(super) donor_held: bool,
    pub(super) holds: Vec<String>,
}

/// A node of the pool at the end of the demo.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Node {
    pub(super) name: String,
    pub(super) image: String,
    pub(super) kernel: String,
    pub(super) state: String,
}

/// An image version that failed its canary.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Rejected {
    pub(super) version: String,
    pub(super) donor: String,
    pub(super) reason: String,
    pub(super) current_version: String,
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn sample() -> Outcome {
        let boot = |node: &str, stages: &[(&str, f64)]| Boot {
            node: node.to_owned(),
            seconds: stages.iter().map(|(_, seconds)| seconds).sum(),
            stages: stages.iter().map(|(name, seconds)| ((*name).to_owned(), *seconds)).collect(),
            kernel: "5.4.0-1036-azure".to_owned(),
            stale_packages: 41,
            images_to_pull: 6,
        };
        let step = |name: &str, seconds, donor_held| StepTime {
            name: name.to_owned(),
            seconds,
            donor_held,
            holds: Vec::new(),
        };
        Outcome {
            pool: "k8s-agentpool1-26100436-vmss".to_owned(),
            donor: "k8s-agentpool1-26100436-vmss000003".to_owned(),
            version: "2026.11.16".to_owned(),
            before: boot(
                "k8s-agentpool1-26100436-vmss00000a",
                &[("allocate", 40.0), ("kernel", 22.6), ("cloud-init", 11.7), ("script-extension", 135.0)],
            ),
            after: boot("k8s-agentpool1-26100436-vmss00000b", &[("allocate", 40.0), ("kernel", 27.6)]),
            steps: vec![step("power-off", 183.0, true), step("publish", 6_266.0, false)],
            donor_away: 224.0,
            nodes: vec![Node {
                name: "k8s-agentpool1-26100436-vmss000010".to_owned(),
                image: "2026.11.16".to_owned(),
                kernel: "5.4.0-1036-azure".to_owned(),
                state: "Ready".to_owned(),
            }],
            rejected: Some(Rejected {
                version: "2026.11.17".to_owned(),
                donor: "k8s-agentpool1-26100436-vmss000004".to_owned(),
                reason: "kubelet never reported".to_owned(),
                current_version: "2026.11.16".to_owned(),
            }),
        }
    }
}
