//! What a finding says to a person.

use std::fmt::Write as _;

use super::{AGENTS, Finding, FindingKind};
use crate::explain::{Fact, Hop, Wait, is_pause};
use crate::model::{Boot, UnitName};
use crate::span::Usec;

/// What kind of unit it is that took long, and what to do about it.
fn kind(hop: &Hop) -> (FindingKind, String) {
    let name = hop.unit.as_str();
    if is_pause(hop) {
        let advice = "count it apart: it is no part of the boot. An image without cloud-init does not wait there";
        (FindingKind::Preprovisioning, advice.to_owned())
    } else if name.contains("-wait-online") {
        let advice = "order kubelet after network.target and let it retry, or tell wait-online which interface matters (--any, --interface=)";
        (FindingKind::WaitOnline, advice.to_owned())
    } else if name.starts_with("cloud-") {
        let advice = "have in the image what this stage does, and order kubelet before it";
        (FindingKind::CloudInit, advice.to_owned())
    } else if AGENTS.contains(&name) {
        (FindingKind::Agent, "start kubelet by a unit of the image instead of by an extension".to_owned())
    } else {
        (FindingKind::Slow, format!("see why {name} is slow, or whether it has to come first"))
    }
}

pub(super) fn slow(hop: &Hop, took: Usec, saves: Usec, beside: Vec<UnitName>) -> Finding {
    let (kind, advice) = kind(hop);
    let name = &hop.unit;
    let mut found = match kind {
        FindingKind::Preprovisioning => format!(
            "cloud-init's first stage took {took}: the machine was made ahead and waited to be given to somebody"
        ),
        FindingKind::WaitOnline => format!("{name} took {took} until the network was configured"),
        _ => format!("{name} took {took} before it"),
    };
    if !beside.is_empty() {
        let names: Vec<&str> = beside.iter().map(UnitName::as_str).collect();
        let _ = write!(found, "; beside it {} would hold up as much: saved when all are quick", names.join(", "));
    }
    Finding { kind, unit: name.clone(), beside, saves, found, advice }
}

/// The time of the unit in question itself: it does not move its start, but all that comes after it.
pub(super) fn own(hop: &Hop) -> Option<Finding> {
    let took = hop.ran?;
    let (kind, advice) = kind(hop);
    let found = format!("{} itself took {took}: what is ordered after it waits for that", hop.unit);
    Some(Finding { kind, unit: hop.unit.clone(), beside: Vec::new(), saves: took, found, advice })
}

pub(super) fn manager(hop: &Hop) -> Finding {
    let took = hop.ran.unwrap_or_default();
    Finding {
        kind: FindingKind::Manager,
        unit: hop.unit.clone(),
        beside: Vec::new(),
        saves: took,
        found: format!("PID 1 took {took} to run its generators and to load its units"),
        advice: "remove generators and unit files that the node does not need".to_owned(),
    }
}

pub(super) fn waited(boot: &Boot, hop: &Hop, saves: Usec) -> Finding {
    let (kind, what) = match &hop.wait {
        Wait::Device => (FindingKind::Device, "the kernel found the device then".to_owned()),
        Wait::Trigger(unit) => (FindingKind::Outside, format!("{unit} triggered it")),
        Wait::AfterBoot => (
            FindingKind::Outside,
            "the boot's jobs were done by then: a script, an extension or a person asked for it".to_owned(),
        ),
        Wait::NotRecorded(fact) => (FindingKind::Unknown, format!("why is unknown: it is not recorded {fact}")),
        Wait::Queue | Wait::Unknown => (FindingKind::Outside, "nothing that systemd recorded explains it".to_owned()),
    };
    let agent = AGENTS.into_iter().find(|name| boot.started(name).is_some());
    let advice = match (kind, agent) {
        (FindingKind::Unknown, _) if matches!(hop.wait, Wait::NotRecorded(Fact::Fates(_))) => {
            "a unit that ended and was forgotten is in the journal: `journalctl -b -u UNIT`".to_owned()
        }
        (FindingKind::Unknown, _) => {
            "take a new capture with `kiln boot capture`, which keeps all that is needed".to_owned()
        }
        (FindingKind::Device, _) => {
            "have the device's driver in the kernel or the initial RAM disk, or do not wait for the device".to_owned()
        }
        (_, Some(agent)) => format!(
            "look into the logs of {agent} and of its extensions (/var/log/azure); a unit of the image needs neither"
        ),
        (_, None) => "look into the journal between the two times for who asked".to_owned(),
    };
    let found = match kind {
        FindingKind::Unknown => format!("{} waited {}; {what}", hop.unit, hop.waited),
        _ => format!("{} could have started {} earlier; {what}", hop.unit, hop.waited),
    };
    Finding { kind, unit: hop.unit.clone(), beside: Vec::new(), saves, found, advice }
}

pub(super) fn late(hop: &Hop, target: &str, saves: Usec) -> Finding {
    Finding {
        kind: FindingKind::Order,
        unit: hop.unit.clone(),
        beside: Vec::new(),
        saves,
        found: format!("{} is ordered after {target}, which waits for all that is enabled", hop.unit),
        advice: format!("order it after what it needs and drop After={target}"),
    }
}

pub(super) fn agent(hop: &Hop, active: Usec, waited: Usec) -> Finding {
    Finding {
        kind: FindingKind::Agent,
        unit: hop.unit.clone(),
        beside: Vec::new(),
        saves: Usec::ZERO,
        found: format!(
            "{} was active at {active}, {waited} of it in stages of cloud-init; every extension comes after that",
            hop.unit
        ),
        advice: "what an extension does for kubelet belongs in the image".to_owned(),
    }
}
