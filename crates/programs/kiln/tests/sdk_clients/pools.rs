//! Rules for scale sets and their instances.

use crate::azure::Azure;

/// Two VMs with all fields that reads omit.
const HIDDEN_FIELDS: &str = "pools:
- name: k8s-agentpool1-26100436-vmss
  capacity: 2
  userData: of the model
  customData: '#cloud-config'
  extensions:
  - name: vmssCSE
    publisher: Microsoft.Azure.Extensions
    type: CustomScript
    protectedSettings: {commandToExecute: provision.sh}
";

#[test]
fn custom_data_and_protected_settings_are_never_returned() {
    Azure::default().world(HIDDEN_FIELDS).plays("pools", "hidden_fields_are_never_returned");
}

#[test]
fn put_without_image_keeps_the_image() {
    Azure::default().world(HIDDEN_FIELDS).plays("pools", "put_keeps_hidden_fields");
}

#[test]
fn changes_of_immutable_scale_set_properties_are_rejected() {
    Azure::default().plays("pools", "a_model_has_rules");
}

#[test]
fn upgrade_policy_decides_which_instances_get_a_new_model() {
    let world = "profile: {reimage: 600}
pools:
- {name: by-hand, capacity: 2}
- {name: at-once, capacity: 2, upgradePolicy: Automatic}
- name: in-batches
  capacity: 4
  upgradePolicy: Rolling
  properties: {upgradePolicy: {rollingUpgradePolicy: {maxBatchInstancePercent: 25}}}
";
    Azure::default().world(world).speed("600").plays("pools", "upgrade_policies");
}

#[test]
fn protected_instances_survive_scale_in_and_set_actions() {
    Azure::default().plays("pools", "protection_is_respected");
}

#[test]
fn user_data_of_an_instance_update_reaches_the_vm() {
    // The SDK queries a metadata service.
    testkit::private().inside(|| Azure::default().world(HIDDEN_FIELDS).plays("pools", "user_data_reaches_the_machine"));
}

#[test]
fn power_and_boot_transitions_are_visible() {
    let world = format!("{HIDDEN_FIELDS}profile: {{powerOff: 600, start: 600, deallocate: 600, allocate: 300}}\n");
    Azure::default().world(&world).speed("600").plays("pools", "machines_take_time");
}

#[test]
fn start_and_stop_are_idempotent_and_restart_needs_a_running_vm() {
    Azure::default().plays("pools", "restart_needs_a_running_machine");
}
