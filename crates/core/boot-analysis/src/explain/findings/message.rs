//! The texts of findings.

use std::fmt::Write as _;

use super::{AGENTS, Finding, FindingKind};
use crate::explain::{Fact, Hop, Wait, is_pause};
use crate::model::{Boot, UnitName};
use crate::span::Usec;

/// The kind of a slow unit, and what to do about it.
fn kind(hop: &Hop) -> (FindingKind, String) {
    let name = hop.unit.as_str();
    if is_pause(hop) {
        let advice = "do not count this as boot time; an image without cloud-init has no such pause";
        (FindingKind::Preprovisioning, advice.to_owned())
    } else if name.contains("-wait-online") {
        let advice = "order kubelet after network.target and let it retry, or limit wait-online to the interface that matters (`--any`, `--interface=`)";
        (FindingKind::WaitOnline, advice.to_owned())
    } else if name.starts_with("cloud-") {
        let advice = "build what this stage does into the image, and order kubelet before it";
        (FindingKind::CloudInit, advice.to_owned())
    } else if AGENTS.contains(&name) {
        (FindingKind::Agent, "start kubelet from a unit in the image instead of from an extension".to_owned())
    } else {
        (FindingKind::Slow, format!("find out why {name} is slow, or whether it has to run first"))
    }
}

pub(super) fn slow(hop: &Hop, took: Usec, saves: Usec, parallel: Vec<UnitName>) -> Finding {
    let (kind, advice) = kind(hop);
    let name = &hop.unit;
    let mut message = match kind {
        FindingKind::Preprovisioning => {
            format!("cloud-init's first stage took {took}: the VM was preprovisioned and waited to be assigned")
        }
        FindingKind::WaitOnline => format!("{name} took {took} until the network was configured"),
        _ => format!("{name} took {took} to start"),
    };
    if !parallel.is_empty() {
        let names: Vec<&str> = parallel.iter().map(UnitName::as_str).collect();
        let names = names.join(", ");
        let _ = write!(message, "; {names} ran in parallel, so all of them have to become faster to save this time");
    }
    Finding { kind, unit: name.clone(), parallel, saves, message, advice }
}

/// The run time of the explained unit. It does not change the start of the unit, only that of later units.
pub(super) fn own(hop: &Hop) -> Option<Finding> {
    let took = hop.ran?;
    let (kind, advice) = kind(hop);
    let message = format!("{} itself took {took} to start; units ordered after it wait for that", hop.unit);
    Some(Finding { kind, unit: hop.unit.clone(), parallel: Vec::new(), saves: took, message, advice })
}

pub(super) fn manager(hop: &Hop) -> Finding {
    let took = hop.ran.unwrap_or_default();
    Finding {
        kind: FindingKind::Manager,
        unit: hop.unit.clone(),
        parallel: Vec::new(),
        saves: took,
        message: format!("PID 1 took {took} to run generators and load units"),
        advice: "remove generators and unit files that the node does not need".to_owned(),
    }
}

pub(super) fn waited(boot: &Boot, hop: &Hop, saves: Usec) -> Finding {
    let (kind, what) = match &hop.wait {
        Wait::Device => (FindingKind::Device, "the device appeared then".to_owned()),
        Wait::Trigger(unit) => (FindingKind::Outside, format!("{unit} triggered it")),
        Wait::AfterBoot => (
            FindingKind::Outside,
            "the boot had finished by then: a script, an extension or a user started it".to_owned(),
        ),
        Wait::NotRecorded(fact) => {
            (FindingKind::Unknown, format!("the cause is unknown: the capture does not record {fact}"))
        }
        Wait::Queue | Wait::Unknown => {
            (FindingKind::Outside, "nothing that systemd recorded explains the wait".to_owned())
        }
    };
    let agent = AGENTS.into_iter().find(|name| boot.started(name).is_some());
    let advice = match (kind, agent) {
        (FindingKind::Unknown, _) if matches!(hop.wait, Wait::NotRecorded(Fact::MissingUnits(_))) => {
            "a unit that ended and was unloaded is still in the journal: `journalctl -b -u UNIT`".to_owned()
        }
        (FindingKind::Unknown, _) => {
            "take a new capture with `kiln boot capture`, which records everything that is needed".to_owned()
        }
        (FindingKind::Device, _) => {
            "build the driver of the device into the kernel or the initial RAM disk, or do not wait for the device"
                .to_owned()
        }
        (_, Some(agent)) => format!(
            "check the logs of {agent} and of its extensions in `/var/log/azure`; a unit in the image needs neither"
        ),
        (_, None) => "check the journal between the two times to find out what started it".to_owned(),
    };
    let message = match kind {
        FindingKind::Unknown => format!("{} waited {}; {what}", hop.unit, hop.waited),
        _ => format!("{} could have started {} earlier; {what}", hop.unit, hop.waited),
    };
    Finding { kind, unit: hop.unit.clone(), parallel: Vec::new(), saves, message, advice }
}

pub(super) fn late(hop: &Hop, target: &str, saves: Usec) -> Finding {
    Finding {
        kind: FindingKind::Order,
        unit: hop.unit.clone(),
        parallel: Vec::new(),
        saves,
        message: format!("{} is ordered after {target}, which waits for every enabled unit", hop.unit),
        advice: format!("order it after the units it needs and remove `After={target}`"),
    }
}

pub(super) fn agent(hop: &Hop, active: Usec, waited: Usec) -> Finding {
    Finding {
        kind: FindingKind::Agent,
        unit: hop.unit.clone(),
        parallel: Vec::new(),
        saves: Usec::ZERO,
        message: format!(
            "{} became active at {active}, after {waited} of cloud-init; extensions run only after that",
            hop.unit
        ),
        advice: "build what the extension does for kubelet into the image".to_owned(),
    }
}
