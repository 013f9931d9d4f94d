//! Kills `kiln launch` after each of its requests.

use std::collections::BTreeSet;

use crate::world::{IMAGES, World};

/// Resources of other owners. Some resemble those of the test in name, tag, tag value or case.
const FOREIGN: &str = "
resources:
- path: Microsoft.Network/networkInterfaces/plain-nic
  body: {location: westus2, properties: {ipConfigurations: []}}
- path: Microsoft.Network/networkInterfaces/other-owner-nic
  body: {location: westus2, tags: {kiln.dev_owner: other-cluster, kiln-machine: other-owner, kiln.dev_launch: '2020-01-01T00:00:00Z'}, properties: {ipConfigurations: []}}
- path: Microsoft.Network/networkInterfaces/longer-owner-nic
  body: {location: westus2, tags: {kiln.dev_owner: my-cluster-2, kiln-machine: longer-owner, kiln.dev_launch: '2020-01-01T00:00:00Z'}, properties: {ipConfigurations: []}}
- path: Microsoft.Network/networkInterfaces/by-hand
  body: {location: westus2, tags: {kiln.dev_owner: my-cluster}, properties: {ipConfigurations: []}}
- path: Microsoft.Network/networkInterfaces/undated-nic
  body: {location: westus2, tags: {kiln.dev_owner: my-cluster, kiln-machine: undated}, properties: {ipConfigurations: []}}
- path: Microsoft.Compute/disks/data
  body: {location: westus2, tags: {owner: my-cluster, kiln-machine: data}, properties: {creationData: {createOption: Empty}, diskSizeGB: 4}}
- path: Microsoft.Compute/disks/node-1-data
  body: {location: westus2, properties: {creationData: {createOption: Empty}, diskSizeGB: 4}}
- path: Microsoft.Network/networkInterfaces/theirs
  body: {location: westus2, properties: {ipConfigurations: []}}
- path: Microsoft.Compute/virtualMachines/node-10
  body:
    location: westus2
    tags: {kiln.dev_owner: other-cluster, kiln-machine: node-10, kiln.dev_launch: '2020-01-01T00:00:00Z'}
    properties:
      hardwareProfile: {vmSize: Standard_D2s_v3}
      storageProfile: {imageReference: {publisher: p, offer: o, sku: s, version: latest}, osDisk: {createOption: FromImage}}
      osProfile: {computerName: node-10, adminUsername: azureuser}
      networkProfile: {networkInterfaces: [{id: GROUP/Microsoft.Network/networkInterfaces/theirs}]}
pools: []
";

fn parts(there: &BTreeSet<String>) -> Vec<&str> {
    let of_node_1 = |path: &&String| {
        ["virtualMachines/node-1", "networkInterfaces/node-1-nic", "disks/node-1-os"]
            .iter()
            .any(|end| path.ends_with(end))
    };
    there.iter().filter(of_node_1).map(String::as_str).collect()
}

#[test]
fn gc_deletes_exactly_what_a_killed_create_left() {
    let world = World::watched(&format!("{IMAGES}{}", FOREIGN.replace("GROUP", crate::world::GROUP)));
    let before = world.resources();
    assert!(before.len() >= 12, "{before:?}");
    let inputs = world.inputs(&[]);
    let gc = ["gc", "--owner", "my-cluster", "--older-than", "0s", "--output", "json"];
    let (mut fragments, mut machines, mut nothing) = (0, 0, 0);
    let mut last = Vec::new();
    for requests in 1.. {
        let (asked, ended) = world.run_killed(requests, &["create", "node-1"], &inputs);
        if ended {
            last = asked;
            break;
        }
        assert_eq!(asked.len() as u64, requests, "{asked:?}");
        let left = world.resources();
        match parts(&left).as_slice() {
            [] => nothing += 1,
            [one] if one.ends_with("node-1-nic") => fragments += 1,
            [_, _, _] => machines += 1,
            other => panic!("after {asked:?}: {other:?}"),
        }
        // A launch that may still be running is not deleted.
        let young = world.run(&["gc", "--owner", "my-cluster", "--output", "json"], &[]).success().json();
        assert_eq!(young["removed"].as_array().unwrap().len(), 0, "{young}");
        assert_eq!(world.resources(), left);
        let confirmed = asked.iter().any(|line| line.starts_with("PATCH"));
        world.run_ok(&gc, &[]);
        if confirmed {
            // The launch was completed before the kill, so the machine is kept.
            assert_eq!(parts(&world.resources()).len(), 3, "{asked:?}");
            world.run_ok(&["delete", "node-1", "--owner", "my-cluster"], &[]);
        }
        assert_eq!(world.resources(), before, "after {asked:?}");
    }
    assert!(nothing >= 4 && fragments >= 1 && machines >= 2, "{nothing} {fragments} {machines}: {last:?}");
    assert!(last.iter().any(|line| line.starts_with("PUT") && line.contains("virtualMachines/node-1")), "{last:?}");
}

#[test]
fn create_completes_a_killed_create() {
    let world = World::watched(&format!("{IMAGES}pools: []\n"));
    let before = world.resources();
    let inputs = world.inputs(&[]);
    let mut kills = 0;
    for requests in 1.. {
        let (asked, ended) = world.run_killed(requests, &["create", "node-1"], &inputs);
        if ended {
            break;
        }
        kills += 1;
        let made = world.run(&["create", "node-1", "--output", "json"], &inputs).success().json();
        assert_eq!(made["parts"].as_array().unwrap().len(), 3, "after {asked:?}: {made}");
        assert_eq!(made["tags"]["kiln.dev_launch"], "done", "after {asked:?}: {made}");
        let gc = ["gc", "--owner", "my-cluster", "--older-than", "0s", "--output", "json"];
        let kept = world.run(&gc, &[]).success().json();
        assert_eq!(kept["removed"].as_array().unwrap().len(), 0, "completed machines are kept: {kept}");
        world.run_ok(&["delete", "node-1", "--owner", "my-cluster"], &[]);
        assert_eq!(world.resources(), before, "after {asked:?}");
    }
    assert!(kills >= 7, "{kills}");
}

#[test]
fn gc_completes_a_killed_delete() {
    let world = World::watched(&format!("{IMAGES}pools: []\n"));
    let before = world.resources();
    let inputs = world.inputs(&[]);
    let mut kills = 0;
    for requests in 1.. {
        world.run_ok(&["create", "node-1"], &inputs);
        let (_, ended) = world.run_killed(requests, &["delete", "node-1", "--owner", "my-cluster"], &[]);
        if ended {
            break;
        }
        kills += 1;
        world.run_ok(&["gc", "--owner", "my-cluster", "--older-than", "0s"], &[]);
        if world.resources() != before {
            // The machine was not deleted yet, and its launch was completed.
            assert_eq!(parts(&world.resources()).len(), 3);
            world.run_ok(&["delete", "node-1", "--owner", "my-cluster"], &[]);
        }
        assert_eq!(world.resources(), before, "after {requests} requests");
    }
    assert_eq!(world.resources(), before);
    assert!(kills >= 5, "{kills}");
}
