//! Rules of scale sets and their instances.

use crate::azure::Azure;

/// Two machines with everything that reads hide.
const HIDING: &str = "pools:
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
fn custom_data_and_protected_settings_are_never_read_and_user_data_on_request() {
    Azure::default().world(HIDING).plays("pools", "some_fields_are_never_read");
}

#[test]
fn a_put_that_omits_the_image_keeps_it() {
    Azure::default().world(HIDING).plays("pools", "a_put_keeps_what_it_cannot_know");
}

#[test]
fn immutable_properties_of_a_scale_set_are_refused() {
    Azure::default().plays("pools", "a_model_has_rules");
}

#[test]
fn the_upgrade_policy_decides_which_instances_take_a_new_model() {
    let world = "profile: {reimage: 600}
pools:
- {name: by-hand, capacity: 2}
- {name: at-once, capacity: 2, upgradePolicy: Automatic}
- name: in-batches
  capacity: 4
  upgradePolicy: Rolling
  properties: {upgradePolicy: {rollingUpgradePolicy: {maxBatchInstancePercent: 25}}}
";
    Azure::default().world(world).speed("600").plays("pools", "policies_decide_who_gets_the_model");
}

#[test]
fn protected_instances_survive_scale_in_and_actions_on_the_set() {
    Azure::default().plays("pools", "protection_holds");
}

#[test]
fn user_data_of_an_instance_update_is_in_the_next_read_of_the_machine() {
    // It asks a metadata service.
    testkit::private().inside(|| Azure::default().world(HIDING).plays("pools", "user_data_reaches_the_machine"));
}

#[test]
fn power_and_boot_are_seen_on_the_way() {
    let world = format!("{HIDING}profile: {{powerOff: 600, start: 600, deallocate: 600, allocate: 300}}\n");
    Azure::default().world(&world).speed("600").plays("pools", "machines_take_time");
}

#[test]
fn start_and_stop_can_be_repeated_and_restart_needs_a_running_machine() {
    Azure::default().plays("pools", "restarting_needs_a_machine_that_runs");
}
