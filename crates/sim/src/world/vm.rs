//! A virtual machine as the world runs it: power, boot, identity, and what it was told.

use std::net::Ipv4Addr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

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

/// Custom data that asks for nothing: kamino's no-op is base64 of `#cloud-config\n`.
const NO_OP_CUSTOM_DATA: &str = "I2Nsb3VkLWNvbmZpZwo=";

impl Vm {
    /// Power goes on at `now`: the stages of this boot and their ends.
    pub(crate) fn power_on(&mut self, profile: &Profile, now: Timestamp) {
        let first = self.boots == 0;
        let works = |when| match when {
            When::Always => true,
            When::CustomData => first && self.custom_data.as_deref().is_some_and(|data| data != NO_OP_CUSTOM_DATA),
            When::Script => first && self.script,
        };
        let mut at = now;
        let stages = profile.boot.iter().filter(|stage| works(stage.when)).map(|stage| {
            at += seconds(stage.seconds);
            (stage.name.clone(), at)
        });
        self.boot = Some(Boot { started: now, stages: stages.collect() });
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
        self.power == Power::Running && self.boot.as_ref().is_some_and(|boot| boot.ends() <= now)
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
    use super::*;

    fn vm() -> Vm {
        Vm {
            vm_id: "v".into(),
            name: "n".into(),
            computer_name: "c".into(),
            address: Ipv4Addr::LOCALHOST,
            power: Power::Stopped,
            image: None,
            custom_data: Some("I2Nsb3VkLWNvbmZpZwpydW5jbWQ6IFtdCg==".into()),
            user_data: None,
            script: true,
            boots: 0,
            boot: None,
            health: None,
            events: Events::default(),
        }
    }

    fn stages(vm: &Vm) -> Vec<&str> {
        vm.boot.as_ref().expect("a boot").stages.iter().map(|(name, _)| name.as_str()).collect()
    }

    #[test]
    fn custom_data_and_script_cost_time_at_the_first_boot_only() {
        let (profile, now) = (Profile::default(), Timestamp::UNIX_EPOCH);
        let mut vm = vm();
        vm.power_on(&profile, now);
        assert_eq!(stages(&vm), ["kernel", "network-online", "cloud-init", "script-extension", "kubelet"]);
        vm.power_off(Power::Stopped);
        vm.power_on(&profile, now);
        assert_eq!(stages(&vm), ["kernel", "network-online", "kubelet"]);
    }

    #[test]
    fn no_op_custom_data_costs_nothing() {
        let (profile, now) = (Profile::default(), Timestamp::UNIX_EPOCH);
        let mut vm = vm();
        vm.custom_data = Some(NO_OP_CUSTOM_DATA.into());
        vm.script = false;
        vm.power_on(&profile, now);
        assert_eq!(stages(&vm), ["kernel", "network-online", "kubelet"]);
        assert!(!vm.is_up(now));
        assert!(vm.is_up(now + seconds(27.7)));
    }
}
