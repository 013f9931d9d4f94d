//! The runtime state of a VM: power, boots, identity and reports.

use std::net::Ipv4Addr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::boot::BootResult;
use super::profile::{Profile, StageCondition, seconds};
use super::resource::time_text;

/// A VM, in a scale set or standalone.
#[expect(clippy::struct_field_names, reason = "Azure and DMI use the name `vmId`")]
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Vm {
    pub(crate) vm_id: String,
    pub(crate) name: String,
    pub(crate) computer_name: String,
    pub(crate) address: Ipv4Addr,
    pub(crate) power: Power,
    /// The exact image version of its OS disk.
    pub(crate) image: Option<String>,
    /// In base64, as sent to ARM.
    pub(crate) custom_data: Option<String>,
    pub(crate) user_data: Option<String>,
    /// Whether a Custom Script extension runs at first boot.
    pub(crate) script: bool,
    /// The extensions of the model that it was created from or last upgraded to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) extensions: Vec<Value>,
    pub(crate) boots: u32,
    pub(crate) boot: Option<Boot>,
    /// Why the kubelet of this boot cannot join.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cannot_join: Option<String>,
    /// Why its node does not become Ready.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) never_ready: Option<String>,
    /// The last report of the guest to the platform.
    pub(crate) health: Option<Value>,
    pub(crate) events: Events,
}

/// The last boot.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Boot {
    pub(crate) started: Timestamp,
    /// Name and end of each stage.
    pub(crate) stages: Vec<(String, Timestamp)>,
    /// The number of the pool's images that were missing on the disk.
    #[serde(default)]
    pub(crate) images_to_pull: u32,
    /// The number of outdated packages.
    #[serde(default)]
    pub(crate) packages_behind: u32,
    /// Why it does not finish.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) hangs: Option<String>,
}

impl Boot {
    pub(crate) fn ends(&self) -> Timestamp {
        self.stages.last().map_or(self.started, |(_, end)| *end)
    }
}

/// Scheduled events of a VM.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Events {
    pub(crate) incarnation: u64,
    pub(crate) list: Vec<Value>,
}

/// Power states, as in Azure's status codes.
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
    /// The suffix of `PowerState/…`.
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
    /// Powers the VM on and computes the stages of this boot with their ends.
    pub(crate) fn power_on(&mut self, profile: &Profile, now: Timestamp, result: &BootResult) {
        let times = |when| match when {
            StageCondition::Always => 1,
            StageCondition::CustomData => u32::from(result.custom_data),
            StageCondition::Script => u32::from(result.script),
            StageCondition::Images => result.images_to_pull,
            StageCondition::Packages => result.packages_behind,
            StageCondition::Reboot => u32::from(result.packages_behind > 0),
        };
        let mut at = now;
        let stages = profile.boot.iter().filter(|stage| times(stage.when) > 0).map(|stage| {
            at += seconds(stage.seconds * f64::from(times(stage.when)));
            (stage.name.clone(), at)
        });
        self.boot = Some(Boot {
            started: now,
            stages: stages.collect(),
            images_to_pull: result.images_to_pull,
            packages_behind: result.packages_behind,
            hangs: result.hangs.clone(),
        });
        self.cannot_join.clone_from(&result.cannot_join);
        self.never_ready.clone_from(&result.never_ready);
        self.boots += 1;
        self.power = Power::Running;
        self.health = None;
    }

    pub(crate) fn power_off(&mut self, to: Power) {
        self.power = to;
        self.boot = None;
    }

    /// Makes the next boot a first boot, after the OS disk was replaced.
    pub(crate) fn forget_boots(&mut self) {
        self.boots = 0;
        self.boot = None;
    }

    /// Whether the last boot has finished.
    pub(crate) fn is_up(&self, now: Timestamp) -> bool {
        self.power == Power::Running
            && self.boot.as_ref().is_some_and(|boot| boot.hangs.is_none() && boot.ends() <= now)
    }

    /// The power and guest agent status of an instance view.
    pub(crate) fn agent(&self, now: Timestamp) -> Value {
        let ready = self.is_up(now);
        json!({
            "vmAgentVersion": if ready { "2.12.0.2" } else { "Unknown" },
            "statuses": [if ready {
                json!({"code": "ProvisioningState/succeeded", "level": "Info", "displayStatus": "Ready", "message": "Guest Agent is running", "time": time_text(now)})
            } else {
                json!({"code": "ProvisioningState/Unavailable", "level": "Warning", "displayStatus": "Not Ready", "message": "VM status blob is found but not yet populated.", "time": time_text(now)})
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
            extensions: Vec::new(),
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
    fn boot_stages_depend_on_their_condition() {
        let (profile, now) = (Profile::default(), Timestamp::UNIX_EPOCH);
        let mut vm = vm();
        vm.power_on(&profile, now, &BootResult { custom_data: true, script: true, ..BootResult::default() });
        assert_eq!(stages(&vm), ["kernel", "network-online", "cloud-init", "script-extension", "kubelet"]);
        vm.power_off(Power::Stopped);
        vm.power_on(&profile, now, &BootResult::default());
        assert_eq!(stages(&vm), ["kernel", "network-online", "kubelet"]);
        assert!(!vm.is_up(now));
        assert!(vm.is_up(now + seconds(27.7)));
    }

    #[test]
    fn updates_take_time_per_item_and_one_more_boot() {
        let stage = |name: &str, seconds, when| Stage { name: name.to_owned(), seconds, when };
        let boot = vec![
            stage("pull", 4.0, StageCondition::Images),
            stage("patches", 2.0, StageCondition::Packages),
            stage("reboot", 30.0, StageCondition::Reboot),
            stage("kubelet", 5.0, StageCondition::Always),
        ];
        let (profile, now) = (Profile { boot, ..Profile::default() }, Timestamp::UNIX_EPOCH);
        let mut vm = vm();
        vm.power_on(&profile, now, &BootResult { images_to_pull: 3, packages_behind: 41, ..BootResult::default() });
        let ends = |vm: &Vm| vm.boot.as_ref().expect("a boot").ends().duration_since(now).as_secs();
        assert_eq!(ends(&vm), 12 + 82 + 30 + 5);
        vm.power_on(&profile, now, &BootResult::default());
        assert_eq!((stages(&vm), ends(&vm)), (vec!["kubelet"], 5));
    }

    #[test]
    fn unfinished_boot_is_never_up() {
        let (profile, now) = (Profile::default(), Timestamp::UNIX_EPOCH);
        let mut vm = vm();
        vm.power_on(&profile, now, &BootResult { hangs: Some("stuck".to_owned()), ..BootResult::default() });
        assert!(!vm.is_up(now + seconds(1e6)));
    }
}
