//! Scale sets.

use serde_json::json;

use crate::azure::Azure;
use crate::session::{POOL, Session};

#[test]
fn az_lists_instances_across_pages_and_stops_and_starts_them() {
    let session = Session::logged_in(Azure::default().world("pageSize: 3\n"));
    assert_eq!(session.json("vmss list --query [].name"), json!([POOL]));
    let ids = session.json(&format!("vmss list-instances --name {POOL} --query [].instanceId"));
    assert_eq!(ids, json!(["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"]));
    let power = |expected: &str| {
        let view = session.json(&format!("vmss get-instance-view --name {POOL} --instance-id 0"));
        let codes = view["statuses"].as_array().unwrap().iter().map(|status| status["code"].as_str().unwrap());
        assert!(codes.into_iter().any(|code| code == format!("PowerState/{expected}")), "{view}");
        assert_eq!(view["hyperVGeneration"], "V1");
    };
    power("running");
    session.done(&format!("vmss stop --name {POOL} --instance-ids 0"));
    power("stopped");
    session.done(&format!("vmss start --name {POOL} --instance-ids 0"));
    power("running");
    session.done(&format!("vmss deallocate --name {POOL} --instance-ids 0"));
    power("deallocated");
    session.done(&format!("vmss start --name {POOL} --instance-ids 0 --no-wait"));
    power("running");
    session.done(&format!("vmss restart --name {POOL} --instance-ids 0 1"));
    session.done(&format!("vmss reimage --name {POOL} --instance-ids 0"));
    session.done(&format!("vmss delete-instances --name {POOL} --instance-ids 8 9"));
    assert_eq!(session.json(&format!("vmss show --name {POOL} --query sku.capacity")), json!(8));
}

#[test]
fn az_changes_a_model_and_omitted_fields_are_kept() {
    let session = Session::logged_in(Azure::default());
    let image = || {
        session.json(&format!("vmss show --name {POOL} --query virtualMachineProfile.storageProfile.imageReference"))
    };
    let before = image();
    assert_eq!(before["publisher"].as_str().map(str::is_empty), Some(false), "{before}");
    let names = session.json(&format!("vmss extension list --vmss-name {POOL} --query [].name"));
    assert_eq!(names, json!(["vmssCSE", "computeAksLinuxBilling"]));
    // This command sends the whole model without its image.
    session.done(&format!("vmss extension delete --vmss-name {POOL} --name vmssCSE"));
    assert_eq!(image(), before);
    let names = session.json(&format!("vmss extension list --vmss-name {POOL} --query [].name"));
    assert_eq!(names, json!(["computeAksLinuxBilling"]));
    // This command sends only location and size.
    session.done(&format!("vmss scale --name {POOL} --new-capacity 11"));
    let pool = session.json(&format!("vmss show --name {POOL}"));
    assert_eq!((&pool["sku"]["capacity"], &pool["tags"]["poolName"]), (&json!(11), &json!("agentpool1")));
    let newest = session.json(&format!("vmss list-instances --name {POOL} --query [10].osProfile.computerName"));
    assert_eq!(newest, json!(format!("{POOL}00000A")));
    assert_eq!(image(), before);

    session.done(&format!(
        "vmss update --name {POOL} --set virtualMachineProfile.storageProfile.imageReference.version=2.0.0 virtualMachineProfile.osProfile.customData=I2Nsb3VkLWNvbmZpZwo= tags.run=seven"
    ));
    assert_eq!(image()["version"], "2.0.0");
    assert_eq!(session.json(&format!("vmss show --name {POOL} --query tags.run")), json!("seven"));
    session.done(&format!("vmss update-instances --name {POOL} --instance-ids 0"));
    let applied = session.json(&format!("vmss list-instances --name {POOL} --query [].latestModelApplied"));
    assert_eq!((&applied[0], &applied[1]), (&json!(true), &json!(false)));
    let protected = session.json(&format!("vmss update --name {POOL} --instance-id 1 --protect-from-scale-in true"));
    assert_eq!(protected["protectionPolicy"]["protectFromScaleIn"], true);
    session.done(&format!("vmss delete --name {POOL}"));
    assert_eq!(session.json("vmss list"), json!([]));
}
