//! `kilnd inspect` reports facts about a node's disk without changing it and without showing a secret.

mod identity_donor;

use identity_donor::{DONOR, DONOR_NAME, Disk, SECRET, TENANT, TOKEN, donor, empty, printed, set_credential_source};
use kiln_types::{FileLine, Inspection, RecipeRunner};
use kilnd::os::Counts;

#[test]
fn inspection_reports_the_facts_of_a_donor() {
    let disk = donor();
    disk.write("/etc/netplan/60-static.yaml", "network:\n  ethernets:\n    eth1:\n      addresses: [10.0.0.4/24]\n");
    disk.write(
        "/var/lib/kiln/ancestry.log",
        "{\"at\":\"t\",\"from\":\"a\",\"imageVersion\":\"2026.11.15\",\"run\":\"r1\"}\n",
    );
    let output = disk.kilnd(&["inspect", "--output", "json"]);
    assert!(output.status.success(), "{}", printed(&output));
    let found: Inspection = serde_json::from_slice(&output.stdout).expect("an inspection");
    assert_eq!((found.host_name.as_str(), found.vm_id.as_str()), (DONOR_NAME, DONOR));
    assert_eq!((found.os_release.as_str(), found.kernel.as_str()), ("Ubuntu 24.04.3 LTS", "6.8.0-1021-azure"));
    assert_eq!((found.kubelet_version.as_str(), found.runtime_version.as_str()), ("v1.29.3", "containerd://1.7.22"));
    assert_eq!(found.packages.len(), 3);
    assert!(found.disk.size_bytes > 0 && found.disk.size_bytes >= found.disk.used_bytes);
    assert_eq!(found.fstab.iter().filter(|entry| entry.holds_up_a_clone()).count(), 1);
    assert_eq!(found.join_credential.kind(), "bootstrapToken");
    assert_eq!(found.custom_data.size(), "#cloud-config\n# ".len() as u64 + SECRET.len() as u64 + 1);
    let file_line = |path: &str, line: &str| FileLine { path: path.to_owned(), line: line.to_owned() };
    let named = file_line("/etc/default/kubelet", &format!("ARGS=--hostname-override={DONOR_NAME}"));
    assert_eq!(found.literal_host_names, [named, file_line("/etc/default/kubelet", "***")]);
    assert_eq!(found.static_addresses, [file_line("/etc/netplan/60-static.yaml", "addresses: [10.0.0.4/24]")]);
    assert!(
        ["machine-id", "netplan", "kubelet-pki", "agent"]
            .iter()
            .all(|name| found.identity.iter().any(|one| one == name))
    );
    assert_eq!(found.first_boot_unit.expect("the unit").recorded_vm_id, DONOR);
    assert_eq!(found.cached_images, ["docker.io/library/nginx:1.27", "registry.k8s.io/pause:3.9"]);
    assert_eq!(found.ancestry[0].image_version, "2026.11.15");
    for (path, kind) in [
        ("/var/lib/kubelet/bootstrap-kubeconfig", "bootstrap token"),
        ("/var/lib/cloud/instance/user-data.txt", "custom data"),
        ("/etc/ssh/ssh_host_rsa_key", "host key"),
    ] {
        assert!(found.secrets.iter().any(|secret| secret.path == path && secret.kind == kind), "{path}");
    }
}

#[test]
fn text_and_json_output_show_no_secret() {
    let disk = donor();
    for args in [&["inspect"][..], &["inspect", "--output", "json"]] {
        let text = printed(&disk.kilnd(args));
        assert!(text.contains(DONOR_NAME), "{text}");
        for hidden in [SECRET, TOKEN, TENANT] {
            assert!(!text.contains(hidden), "{text}");
        }
    }
}

#[test]
fn custom_data_is_found_in_every_place_that_keeps_a_copy() {
    let custom_data = "#!/bin/sh\necho hunter2\n";
    let encoded = "IyEvYmluL3NoCmVjaG8gaHVudGVyMgo=";
    let ovf_env = format!(
        "<Environment><LinuxProvisioningConfigurationSet><HostName>n</HostName><CustomData>{encoded}</CustomData>\
         </LinuxProvisioningConfigurationSet></Environment>"
    );
    for (path, text) in [
        ("/var/lib/cloud/instance/user-data.txt", custom_data),
        ("/var/lib/waagent/CustomData", custom_data),
        ("/var/lib/waagent/CustomData", encoded),
        ("/var/lib/kiln/custom-data", encoded),
        ("/var/lib/waagent/ovf-env.xml", &ovf_env),
    ] {
        let disk = empty();
        disk.write(path, text);
        let found = kilnd::commands::inspect::inspect(&disk.node()).expect("inspected");
        let bytes = found.custom_data.bytes().expect("it is there");
        assert_eq!(bytes.expose(), custom_data.as_bytes(), "{path}");
        let paths: Vec<&str> = found.secrets.iter().map(|secret| secret.path.as_str()).collect();
        assert!(paths.contains(&path), "{paths:?}");
    }
}

#[test]
fn programs_that_would_run_the_recipe_again_are_found() {
    let runners = |disk: &Disk| kilnd::commands::inspect::inspect(&disk.node()).expect("inspected").recipe_runners;
    let disk = empty();
    assert_eq!(runners(&disk), []);
    disk.write("/usr/bin/cloud-init", "");
    assert_eq!(runners(&disk), [], "it has not run here");
    disk.write("/var/lib/cloud/instances/i/sem/config_scripts_user", "");
    assert_eq!(runners(&disk), [RecipeRunner::CloudInit]);
    disk.write("/var/lib/waagent/Microsoft.Azure.Extensions.CustomScript-2.1.10/HandlerManifest.json", "{}");
    assert_eq!(runners(&disk), [RecipeRunner::CloudInit, RecipeRunner::ScriptExtension]);
    disk.write("/etc/cloud/cloud-init.disabled", "");
    assert_eq!(runners(&disk), [RecipeRunner::ScriptExtension]);

    let kiln = donor();
    assert_eq!(runners(&kiln), [], "its document does not name custom data");
    set_credential_source(&kiln, "customData", "");
    assert_eq!(runners(&kiln), [RecipeRunner::Kilnd]);
}

#[test]
fn inspection_changes_nothing() {
    let disk = donor();
    let before = disk.everything();
    let node = disk.node();
    kilnd::commands::inspect::inspect(&node).expect("inspected");
    assert_eq!(node.root.counts(), Counts::default());
    assert!(disk.kilnd(&["inspect"]).status.success());
    assert!(disk.everything() == before && !disk.has("/run/kiln"));
}

#[test]
fn empty_disk_is_reported_with_unknown_values() {
    let disk = empty();
    let output = disk.kilnd(&["inspect", "--output", "json"]);
    assert!(output.status.success(), "{}", printed(&output));
    let found: Inspection = serde_json::from_slice(&output.stdout).expect("an inspection");
    assert_eq!((found.join_credential.kind(), found.kubelet_version.as_str()), ("unknown", "unknown"));
    assert!(found.first_boot_unit.is_none() && !found.custom_data.present() && found.identity.is_empty());
}
