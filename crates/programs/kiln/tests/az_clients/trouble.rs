//! Errors as `az` reports them.

use serde_json::json;

use crate::azure::Azure;
use crate::session::{POOL, Session};

#[test]
fn az_waits_and_retries_when_throttled() {
    let faults = "faults:
- {kind: throttled-arm, method: GET, type: Microsoft.Compute/virtualMachineScaleSets, times: 1}
- {kind: throttled-compute, method: GET, type: Microsoft.Compute/virtualMachineScaleSets, times: 2}\n";
    let session = Session::logged_in(Azure::default().faults(faults));
    let finished = session.in_group(&format!("vmss show --name {POOL} --query name --debug")).success();
    assert_eq!(finished.json(), json!(POOL));
    assert_eq!(finished.stderr.matches("Response status: 429").count(), 3, "{finished}");
}

#[test]
fn az_polls_a_long_operation() {
    let session = Session::logged_in(Azure::default().world("profile: {gallery: 1800}\n").speed("600"));
    let finished = session.in_group("sig create --gallery-name slow --debug").success();
    assert_eq!(finished.json()["provisioningState"], "Succeeded");
    assert!(finished.stderr.contains(r#""status":"InProgress""#), "{finished}");
}

#[test]
fn az_reports_errors_with_code_message_and_exit_code() {
    let faults = "faults:
- {kind: allocation-failed, type: Microsoft.Compute/virtualMachineScaleSets, action: start}
- {kind: zrs-not-supported, method: PUT, type: Microsoft.Compute/galleries/images/versions}\n";
    let session = Session::logged_in(Azure::default().faults(faults));
    let expect = |line: &str, code: i32, text: &str| {
        let finished = session.in_group(line);
        assert_eq!(finished.code, Some(code), "{finished}");
        assert!(finished.stderr.contains(&format!("ERROR: {text}")), "{finished}");
        assert!(finished.stdout.trim().is_empty(), "{finished}");
    };
    expect(
        "vmss show --name nowhere",
        3,
        "(ResourceNotFound) The Resource 'Microsoft.Compute/virtualMachineScaleSets/nowhere'",
    );
    expect(&format!("vmss show --name {POOL} --instance-id 99"), 3, "(ResourceNotFound)");
    session.done(&format!("vmss stop --name {POOL} --instance-ids 0"));
    expect(&format!("vmss restart --name {POOL} --instance-ids 0"), 1, "(OperationNotAllowed)");
    expect(&format!("vmss start --name {POOL} --instance-ids 0"), 1, "(AllocationFailed) Allocation failed.");
    session.done("sig create --gallery-name images");
    let definition = "--gallery-name images --gallery-image-definition image";
    session.done(&format!("sig image-definition create {definition} --publisher p --offer o --sku s --hyper-v-generation V1 --os-type Linux --os-state generalized"));
    let disk = session.in_group(&format!(
        "vmss show --name {POOL} --instance-id 0 --query storageProfile.osDisk.managedDisk.id --output tsv"
    ));
    session.done(&format!("snapshot create --name s --copy-start false --source {}", disk.success().stdout.trim()));
    expect(
        &format!(
            "sig image-version create {definition} --gallery-image-version 1.0.0 --os-snapshot s --storage-account-type Standard_ZRS"
        ),
        1,
        "(InvalidParameter) The replication to region",
    );
    let left = session
        .json(&format!("sig image-version show {definition} --gallery-image-version 1.0.0 --query provisioningState"));
    assert_eq!(left, json!("Failed"));
}
