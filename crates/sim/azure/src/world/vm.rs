//! A virtual machine as the world runs it: power, boot, identity, and what it was told.

use std::net::Ipv4Addr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::boot::Facts;
use super::profile::{Profile, When, seconds};

/// A machine, of a scale set or standing alone.
#[expect(clippy::struct_field_names, reason = "`vmId` is what Azure and DMI call it")]
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Vm {
    pub(crate) vm_id: String,
    pub(crate) name: String,
    pub(crate) computer_name: String,
    pub(crate) address: Ipv4Addr,
    pub(crate) power: Power,
    /// The image that its OS disk was made from, to the exact version.
    pub(crate) image: Option<String>,
    /// base64, as ARM got it.
    pub(crate) custom_data: Option<String>,
    pub(crate) user_data: Option<String>,
    /// A Custom Script extension runs at first boot.
    pub(crate) script: bool,
    pub(crate) boots: u32,
    pub(crate) boot: Option<Boot>,
    /// Why the kubelet of this boot does not get in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cannot_join: Option<String>,
    /// Why its node does not become Ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) never_ready: Option<String>,
    /// What the guest last told the platform.
    pub(crate) health: Option<Value>,
    pub(crate) events: Events,
}

/// The last boot.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Boot {
    pub(crate) started: Timestamp,
    /// Name and end of each stage.
    pub(crate) stages: Vec<(String, Timestamp)>,
    /// Images of the pool that were not on the disk.
    #[serde(default)]
    pub(crate) images_to_pull: u32,
    /// Packages that had a newer version.
    #[serde(default)]
    pub(crate) packages_behind: u32,
    /// Why it does not come to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) hangs: Option<String>,
}

impl Boot {
    pub(crate) fn ends(&self) -> Timestamp {
        self.stages.last().map_or(self.started, |(_, end)| *end)
    }
}

/// Scheduled events of a machine.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Events {
    pub(crate) incarnation: u64,
    pub(crate) list: Vec<Value>,
}

/// Power states, as Azure's status codes name them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Power {
    Starting,
    Running,
    Stopping,
    Stopped,
    Deallocating,
    Deallocated,
}

impl Power {
    /// The word in `PowerState/…`.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::Running => "running",
            Self::Stopping => "stopping",
            Self::Stopped => "stopped",
            Self::Deallocating => "deallocating",
            Self::Deallocated => "deallocated",
        }
    }

    pub(crate) fn status(self) -> Value {
        json!({"code": format!("PowerState/{}", self.word()), "level": "Info", "displayStatus": format!("VM {}", self.word())})
    }
}

impl Vm {
    /// Power goes on at `now`: the stages of this boot and their ends.
    pub(crate) fn power_on(&mut self, profile: &Profile, now: Timestamp, facts: &Facts) {
        let times = |when| match when {
            When::Always => 1,
            When::CustomData => u32::from(facts.custom_data),
            When::Script => u32::from(facts.script),
            When::Images => facts.images_to_pull,
            When::Packages => facts.packages_behind,
            When::Reboot => u32::from(facts.packages_behind > 0),
        };
        let mut at = now;
        let stages = profile.boot.iter().filter(|stage| times(stage.when) > 0).map(|stage| {
            at += seconds(stage.seconds * f64::from(times(stage.when)));
            (stage.name.clone(), at)
        });
        self.boot = Some(Boot {
            started: now,
            stages: stages.collect(),
            images_to_pull: facts.images_to_pull,
            packages_behind: facts.packages_behind,
            hangs: facts.hangs.clone(),
        });
        self.cannot_join.clone_from(&facts.cannot_join);
        self.never_ready.clone_from(&facts.never_ready);
        self.boots += 1;
        self.power = Power::Running;
        self.health = None;
    }

    /// Power goes off.
    pub(crate) fn power_off(&mut self, to: Power) {
        self.power = to;
        self.boot = None;
    }

    /// A new OS disk: the next boot is a first one.
    pub(crate) fn forget_boots(&mut self) {
        self.boots = 0;
        self.boot = None;
    }

    /// Whether the last boot has come to its end.
    pub(crate) fn is_up(&self, now: Timestamp) -> bool {
        self.power == Power::Running
            && self.boot.as_ref().is_some_and(|boot| boot.hangs.is_none() && boot.ends() <= now)
    }

    /// The part of an instance view that tells of power and guest agent.
    pub(crate) fn agent(&self, now: Timestamp) -> Value {
        let ready = self.is_up(now);
        json!({
            "vmAgentVersion": if ready { "2.12.0.2" } else { "Unknown" },
            "statuses": [if ready {
                json!({"code": "ProvisioningState/succeeded", "level": "Info", "displayStatus": "Ready", "message": "Guest Agent is running", "time": now.to_string()})
            } else {
                json!({"code": "ProvisioningState/Unavailable", "level": "Warning", "displayStatus": "Not Ready", "message": "VM status blob is found but not yet populated.", "time": now.to_string()})
            }],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::profile::Stage;
    use super::*;

    fn vm() -> Vm {
        Vm {
            vm_id: "v".into(),
            name: "n".into(),
            computer_name: "c".into(),
            address: Ipv4Addr::LOCALHOST,
            power: Power::Stopped,
            image: None,
            custom_data: None,
            user_data: None,
            script: false,
            boots: 0,
            boot: None,
            cannot_join: None,
            never_ready: None,
            health: None,
            events: Events::default(),
        }
    }

    fn stages(vm: &Vm) -> Vec<&str> {
        vm.boot.as_ref().expect("a boot").stages.iter().map(|(name, _)| name.as_str()).collect()
    }

    #[test]
    fn a_stage_takes_place_when_there_is_a_reason_for_it() {
        let (profile, now) = (Profile::default(), Timestamp::UNIX_EPOCH);
        let mut vm = vm();
        vm.power_on(&profile, now, &Facts { custom_data: true, script: true, ..Facts::default() });
        assert_eq!(stages(&vm), ["kernel", "network-online", "cloud-init", "script-extension", "kubelet"]);
        vm.power_off(Power::Stopped);
        vm.power_on(&profile, now, &Facts::default());
        assert_eq!(stages(&vm), ["kernel", "network-online", "kubelet"]);
        assert!(!vm.is_up(now));
        assert!(vm.is_up(now + seconds(27.7)));
    }

    #[test]
    fn catching_up_costs_by_the_piece_and_one_boot_more() {
        let stage = |name: &str, seconds, when| Stage { name: name.to_owned(), seconds, when };
        let boot = vec![
            stage("pull", 4.0, When::Images),
            stage("patches", 2.0, When::Packages),
            stage("reboot", 30.0, When::Reboot),
            stage("kubelet", 5.0, When::Always),
        ];
        let (profile, now) = (Profile { boot, ..Profile::default() }, Timestamp::UNIX_EPOCH);
        let mut vm = vm();
        vm.power_on(&profile, now, &Facts { images_to_pull: 3, packages_behind: 41, ..Facts::default() });
        let ends = |vm: &Vm| vm.boot.as_ref().expect("a boot").ends().duration_since(now).as_secs();
        assert_eq!(ends(&vm), 12 + 82 + 30 + 5);
        vm.power_on(&profile, now, &Facts::default());
        assert_eq!((stages(&vm), ends(&vm)), (vec!["kubelet"], 5));
    }

    #[test]
    fn a_boot_that_hangs_is_never_up() {
        let (profile, now) = (Profile::default(), Timestamp::UNIX_EPOCH);
        let mut vm = vm();
        vm.power_on(&profile, now, &Facts { hangs: Some("stuck".to_owned()), ..Facts::default() });
        assert!(!vm.is_up(now + seconds(1e6)));
    }
}
