//! The life cycle of a pool and its image.

use std::path::Path;

use crate::azure::Azure;

const JAVASCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../tests/javascript/life.cjs");

/// A pool of 50 instances, whose numbers in base 36 have letters and a carry.
const FIFTY: &str = "pools:
- {name: k8s-agentpool1-26100436-vmss, capacity: 50, customData: '#cloud-config'}
";

#[test]
fn sdk_drives_the_life_cycle_of_pool_and_image() {
    Azure::default().plays("life", "whole_life");
}

#[test]
fn javascript_sdk_drives_the_life_cycle_of_pool_and_image() {
    let azure = Azure::default().world(FIFTY).start();
    let ready = azure.sim.ready().to_string();
    testkit::javascript(
        Path::new(JAVASCRIPT),
        &[("KILN_SIM", &ready), ("NODE_EXTRA_CA_CERTS", azure.sim.key("caFile"))],
    );
}

#[test]
fn go_sdk_drives_the_life_cycle_of_pool_and_image() {
    let azure = Azure::default().world(FIFTY).start();
    let ready = azure.sim.ready().to_string();
    testkit::go_sdk(&[("KILN_SIM", &ready), ("SSL_CERT_FILE", azure.sim.key("caFile"))]);
}
