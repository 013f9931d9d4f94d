//! What would have saved time, with the seconds, from what is recorded of the way.

use serde::Serialize;

use super::{Hop, Wait, is_pause};
use crate::model::{Boot, Unit, UnitName};
use crate::span::Usec;
use crate::what_if::{Change, what_if};

/// What would have saved less than this is no finding.
const WORTH: Usec = Usec(500_000);

/// A thing that would have saved time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// What kind.
    pub kind: FindingKind,
    /// The unit that it is about.
    pub unit: UnitName,
    /// How much earlier the unit in question would have started.
    pub saves: Usec,
    /// What was found.
    pub found: String,
    /// What to do.
    pub advice: String,
}

/// Kinds of findings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum FindingKind {
    /// The machine was made ahead and waited for its owner. Not the boot's fault.
    Preprovisioning,
    /// Something waits until the network is configured.
    WaitOnline,
    /// cloud-init stands in the way.
    CloudInit,
    /// Azure's agent stands in the way.
    Agent,
    /// It started when somebody outside systemd asked for it.
    Outside,
    /// Another unit that took long.
    Slow,
}

pub(super) fn of(boot: &Boot, id: &str, hops: &[Hop]) -> Vec<Finding> {
    let mut all: Vec<Finding> = Vec::new();
    for (index, hop) in hops.iter().enumerate() {
        if index > 0 && hop.ran > Usec::ZERO {
            all.extend(slow(boot, id, hop));
        }
        if matches!(hop.wait, Wait::AfterBoot | Wait::Unknown | Wait::Trigger(_)) && hop.waited >= WORTH {
            all.push(outside(boot, hop));
        }
    }
    if let Some(agent) = agent(boot, hops) {
        all.push(agent);
    }
    all.retain(|finding| finding.saves >= WORTH || finding.kind == FindingKind::Agent);
    all.sort_by_key(|finding| std::cmp::Reverse(finding.saves));
    all
}

fn slow(boot: &Boot, id: &str, hop: &Hop) -> Option<Finding> {
    let saves = what_if(boot, id, &[Change::WithoutTime(hop.unit.clone())])?.saves;
    let took = hop.ran;
    let (kind, found, advice) = match hop.unit.as_str() {
        _ if is_pause(hop) => (
            FindingKind::Preprovisioning,
            format!("cloud-init's first stage took {took}: the machine was made ahead and waited to be given to somebody"),
            "count it apart: it is no part of the boot. An image without cloud-init does not wait there".to_owned(),
        ),
        name if name.ends_with("-wait-online.service") => (
            FindingKind::WaitOnline,
            format!("{name} took {took} until the network was configured"),
            "order kubelet after network.target and let it retry, or tell wait-online which interface matters (--any, --interface=)".to_owned(),
        ),
        name if name.starts_with("cloud-") => (
            FindingKind::CloudInit,
            format!("{name} took {took} before it"),
            "have in the image what this stage does, and order kubelet before it".to_owned(),
        ),
        name if name.contains("walinuxagent") || name.contains("waagent") => (
            FindingKind::Agent,
            format!("{name} took {took} before it"),
            "start kubelet by a unit of the image instead of by an extension".to_owned(),
        ),
        name => (FindingKind::Slow, format!("{name} took {took} before it"), format!("see why {name} is slow, or whether it has to come first")),
    };
    Some(Finding { kind, unit: hop.unit.clone(), saves, found, advice })
}

fn outside(boot: &Boot, hop: &Hop) -> Finding {
    let what = match &hop.wait {
        Wait::Trigger(unit) => format!("{unit} triggered it"),
        Wait::AfterBoot => {
            "the boot's jobs were done by then: a script, an extension or a person asked for it".to_owned()
        }
        _ => "nothing that systemd recorded explains it".to_owned(),
    };
    let agent = AGENTS.into_iter().find(|name| boot.started(name).is_some());
    let look = match agent {
        Some(agent) => format!(
            "look into the logs of {agent} and of its extensions (/var/log/azure); a unit of the image needs neither"
        ),
        None => "look into the journal between the two times for who asked".to_owned(),
    };
    Finding {
        kind: FindingKind::Outside,
        unit: hop.unit.clone(),
        saves: hop.waited,
        found: format!("{} could have started {} earlier; {what}", hop.unit, hop.waited),
        advice: look,
    }
}

const AGENTS: [&str; 2] = ["walinuxagent.service", "waagent.service"];

/// The agent takes no time by itself, and is late by what it waits for: cloud-init's first stages.
fn agent(boot: &Boot, hops: &[Hop]) -> Option<Finding> {
    let hop = hops.iter().find(|hop| AGENTS.contains(&hop.unit.as_str()) && hop.ran < WORTH)?;
    let stages = hops
        .iter()
        .filter(|other| other.began < hop.began && other.unit.as_str().starts_with("cloud-init") && !is_pause(other));
    let waited: Usec = stages.map(|stage| stage.ran).sum();
    let active = boot.unit(hop.unit.as_str()).and_then(Unit::released).unwrap_or_default() - boot.userspace();
    Some(Finding {
        kind: FindingKind::Agent,
        unit: hop.unit.clone(),
        saves: Usec::ZERO,
        found: format!(
            "{} was active at {active}, {waited} of it in stages of cloud-init; every extension comes after that",
            hop.unit
        ),
        advice: "what an extension does for kubelet belongs in the image".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::explain;
    use super::*;

    fn kinds(chain: &str, unit: &str) -> Vec<(FindingKind, String)> {
        let boot = crate::chain_text::parse(chain).unwrap();
        explain(&boot, unit)
            .unwrap()
            .findings
            .into_iter()
            .map(|finding| (finding.kind, finding.saves.to_string()))
            .collect()
    }

    #[test]
    fn document_001_first_example_is_the_wait_for_the_network() {
        let chain = "graphical.target @20.972s
└─multi-user.target @20.972s
  └─docker.service @16.939s +4.032s
    └─network-online.target @16.910s
      └─systemd-networkd-wait-online.service @270ms +16.639s
        └─systemd-networkd.service @225ms +42ms
          └─systemd-udevd.service @197ms +27ms
            └─system.slice @107ms
              └─-.slice @107ms
";
        let found = kinds(chain, "graphical.target");
        assert_eq!(found[0].0, FindingKind::WaitOnline);
        assert_eq!(found[0].1, "16.639s");
        assert_eq!(found[1], (FindingKind::Slow, "4.032s".to_owned()), "docker's own 4 seconds");
    }

    #[test]
    fn document_001_second_example_is_the_pause_and_it_is_counted_apart() {
        let chain = "graphical.target @16min 55.434s
└─multi-user.target @16min 55.429s
  └─cloud-config.service @16min 52.066s +3.266s
    └─sysinit.target @16min 51.600s
      └─cloud-init.service @16min 44.344s +7.076s
        └─systemd-networkd-wait-online.service @16min 43.303s +1.033s
          └─systemd-networkd.service @16min 42.924s +369ms
            └─network-pre.target @16min 42.920s
              └─cloud-init-local.service @2.504s +16min 40.410s
                └─hv-kvp-daemon.service @2.500s
";
        let boot = crate::chain_text::parse(chain).unwrap();
        let explained = explain(&boot, "graphical.target").unwrap();
        assert_eq!(explained.preprovisioning.to_string(), "16min 40.410s");
        assert!(explained.findings.iter().any(|finding| finding.kind == FindingKind::Preprovisioning));
        assert!(explained.findings.iter().any(|finding| finding.kind == FindingKind::CloudInit));
    }

    #[test]
    fn document_001_third_example_is_cloud_final_before_kubelet() {
        let chain = "kubelet.service @45.640s +10ms
└─cloud-final.service @33.930s +11.703s
  └─multi-user.target @33.929s
    └─cloud-config.service @31.392s +2.499s
";
        let found = kinds(chain, "kubelet.service");
        assert!(found.iter().any(|(kind, _)| *kind == FindingKind::CloudInit), "{found:?}");
        let boot = crate::chain_text::parse(chain).unwrap();
        let explained = explain(&boot, "kubelet.service").unwrap();
        assert!(explained.findings.iter().any(|finding| finding.found.contains("cloud-final.service took 11.703s")));
    }

    #[test]
    fn document_001_fourth_example_is_the_agent_behind_cloud_init() {
        let chain = "walinuxagent.service @31.385s
└─basic.target @31.204s
  └─sysinit.target @31.146s
    └─cloud-init.service @10.912s +20.216s
      └─cloud-init-local.service @2.528s +6.098s
        └─-.slice @1.359s
";
        let boot = crate::chain_text::parse(chain).unwrap();
        let explained = explain(&boot, "walinuxagent.service").unwrap();
        let agent = explained.findings.iter().find(|finding| finding.kind == FindingKind::Agent).unwrap();
        assert!(agent.found.contains("26.314s of it in stages of cloud-init"), "{}", agent.found);
        assert_eq!(explained.preprovisioning, Usec::ZERO, "six seconds are no pause");
    }
}
