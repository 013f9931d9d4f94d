//! Creation, listing and deletion of machines.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::world::{GROUP, IMAGES, TOKEN, World};

const CLASS: &str = "
apiVersion: karpenter.azure.com/v1beta1
kind: AKSNodeClass
metadata: {name: default}
spec:
  osDiskSizeGB: 64
  tags: {team/name: web}
  security: {encryptionAtHost: true, trustedLaunch: {vtpm: true}}
";

const SPOT: &str = "
apiVersion: karpenter.sh/v1
kind: NodeClaim
metadata: {name: general-abc, labels: {karpenter.sh/nodepool: general}}
spec:
  nodeClassRef: {group: karpenter.azure.com, kind: AKSNodeClass, name: default}
  requirements:
  - {key: karpenter.sh/capacity-type, operator: In, values: [spot]}
  - {key: topology.kubernetes.io/zone, operator: In, values: [westus2-2]}
";

#[test]
fn machine_is_created_from_its_inputs_and_tagged_with_its_owner() {
    let world = World::new(&format!("{IMAGES}pools: []\n"));
    let (class, claim) = (world.write("class.yaml", CLASS), world.write("claim.yaml", SPOT));
    let identity = format!("nodeIdentities={GROUP}/Microsoft.ManagedIdentity/userAssignedIdentities/kubelet");
    let keys = format!("diskEncryptionSetId={GROUP}/Microsoft.Compute/diskEncryptionSets/keys");
    let inputs = world.inputs(&[
        "--node-class",
        &class,
        "--node-claim",
        &claim,
        "--set",
        &identity,
        "--set",
        &keys,
        "--set",
        "securityGroup=k8s-nsg",
    ]);
    let made = world.run(&["create", "node-1", "--output", "json"], &inputs).success();
    assert!(!made.stdout.contains(TOKEN) && made.stderr.is_empty(), "{made}");
    let vm = world.body("Microsoft.Compute/virtualMachines/node-1");
    let nic = world.body("Microsoft.Network/networkInterfaces/node-1-nic");
    assert_eq!(vm["zones"], json!(["2"]));
    let properties = &vm["properties"];
    assert_eq!((&properties["priority"], &properties["evictionPolicy"]), (&json!("Spot"), &json!("Delete")));
    assert_eq!(properties["securityProfile"], json!({"securityType": "TrustedLaunch", "encryptionAtHost": true}));
    assert!(vm["identity"]["userAssignedIdentities"].as_object().unwrap().keys().next().unwrap().ends_with("/kubelet"));
    let disk = &properties["storageProfile"]["osDisk"];
    assert_eq!((&disk["diskSizeGB"], &disk["managedDisk"]["storageAccountType"]), (&json!(64), &json!("Premium_LRS")));
    assert!(disk["managedDisk"]["diskEncryptionSet"]["id"].as_str().unwrap().ends_with("/keys"));
    assert_eq!(
        properties["storageProfile"]["imageReference"]["communityGalleryImageId"],
        "/CommunityGalleries/AKSUbuntu-38d80f77-467a-481f-a8d4-09b6d4220bd2/images/2204gen2TLcontainerd/versions/202611.6.0"
    );
    assert!(nic["properties"]["networkSecurityGroup"]["id"].as_str().unwrap().ends_with("/k8s-nsg"));
    for part in [&vm, &nic] {
        assert_eq!(part["tags"]["kiln.dev_owner"], "my-cluster");
        assert_eq!(part["tags"]["kiln-machine"], "node-1");
        assert_eq!(part["tags"]["karpenter.sh_nodepool"], "general");
        assert_eq!(part["tags"]["team_name"], "web");
    }
    let listed = world.run(&["list", "--owner", "my-cluster", "--output", "json"], &[]).success().json();
    assert_eq!(listed["machines"][0]["state"], "succeeded", "{listed}");
    assert_eq!(
        world.run(&["list", "--owner", "my-cluster"], &[]).success().stdout,
        "node-1: succeeded, launched, 3 resources\n"
    );
    assert_eq!(world.run(&["list", "--owner", "other"], &[]).success().stdout, "no machines of owner `other`\n");
}

/// Does not look like a secret, so only the field identifies it as one.
const PLANTED: &str = "hunter2-planted";

/// Collects every string in a value with its path.
fn collect_strings(at: &str, value: &Value, found: &mut Vec<(String, String)>) {
    match value {
        Value::String(text) => found.push((at.to_owned(), text.clone())),
        Value::Array(list) => list.iter().for_each(|value| collect_strings(at, value, found)),
        Value::Object(map) => map.iter().for_each(|(key, value)| {
            found.push((at.to_owned(), key.clone()));
            collect_strings(&format!("{at}.{key}"), value, found);
        }),
        _ => {}
    }
}

/// Whether a text contains a secret, plain or in nested base64, which custom data contains.
fn contains_secret(text: &str) -> bool {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || "+/=".contains(c)));
    let inside = words.filter(|word| word.len() >= 16).filter_map(|word| kiln_aks_formats::from_base64(word).ok());
    [PLANTED, TOKEN].iter().any(|secret| text.contains(secret))
        || inside.filter_map(|bytes| String::from_utf8(bytes).ok()).any(|text| contains_secret(&text))
}

#[test]
fn secrets_are_only_in_custom_data() {
    for bootstrapper in ["aks-variables", "kilnd", "kubeadm-join"] {
        let world = World::new(&format!("{IMAGES}pools: []\n"));
        let planted = ["CustomSearchRealmPassword", "HTTPProxyURLs", "HTTPSProxyURLs"]
            .map(|field| format!("{field}: http://me:{PLANTED}-{field}@proxy.example:3128\n"));
        // A NodeConfig must not contain secrets; the token is in a separate part of the custom data.
        let planted = if bootstrapper == "kilnd" { String::new() } else { planted.concat() };
        let settings = std::fs::read_to_string(world.path("settings.yaml")).unwrap();
        world.write("settings.yaml", &format!("{settings}{planted}"));
        let inputs = world.inputs(&["--bootstrapper", bootstrapper]);
        let made = world.run(&["create", "node-1", "--output", "json"], &inputs).success();
        let listed = world.run(&["list", "--owner", "my-cluster", "--output", "json"], &[]).success();
        for finished in [&made, &listed] {
            let all = format!("{}{}", finished.stdout, finished.stderr);
            assert!(!all.contains(PLANTED) && !all.contains(TOKEN), "{finished}");
        }
        let vm = world.body("Microsoft.Compute/virtualMachines/node-1");
        assert_eq!(vm["properties"].get("userData"), None, "{bootstrapper}");
        let mut carriers = BTreeSet::new();
        for (id, body) in world.sim.stored() {
            let mut found = Vec::new();
            collect_strings(&id, &body, &mut found);
            for (path, text) in found {
                if contains_secret(&text) {
                    carriers.insert(path.trim_start_matches(GROUP).to_owned());
                }
            }
        }
        let only = "/Microsoft.Compute/virtualMachines/node-1.properties.osProfile.customData";
        assert_eq!(carriers, BTreeSet::from([only.to_owned()]), "{bootstrapper}");
        // Errors must not show the secret.
        let refused = world.run(&["create", "node-1", "-g", "other"], &inputs);
        assert!(refused.code == Some(2) && !refused.stderr.contains(PLANTED), "{refused}");
    }
}

#[test]
fn template_is_reproducible_and_written_with_mode_0600() {
    let world = World::new(&format!("{IMAGES}pools: []\n"));
    let inputs = world.inputs(&[]);
    let first = world.run(&["template"], &inputs).success();
    assert_eq!(first.stdout, world.run(&["template"], &inputs).success().stdout);
    let template = first.json();
    assert_eq!(template["bootstrapper"], "aks-variables");
    assert!(template["imageId"].as_str().unwrap().ends_with("/2204gen2containerd/versions/202611.2.0"), "{template}");
    assert_eq!(template["tags"]["kiln.dev_owner"], "my-cluster");
    let script = kiln_aks_formats::from_base64(template["customData"].as_str().unwrap()).unwrap();
    assert!(String::from_utf8(script).unwrap().contains(TOKEN));
    let out = world.path("template.json");
    let quiet = world.run(&["template", "--out", &out], &inputs).success();
    assert_eq!(quiet.stdout, "");
    assert_eq!(std::fs::read_to_string(&out).unwrap(), first.stdout);
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&out).unwrap().permissions()) & 0o777, 0o600);

    let other = world.run(&["template", "--bootstrapper", "kubeadm-join"], &inputs).success().json();
    let script = kiln_aks_formats::from_base64(other["customData"].as_str().unwrap()).unwrap();
    assert!(String::from_utf8(script).unwrap().starts_with("#cloud-config\n"));
}

#[test]
fn machines_of_other_owners_and_missing_inputs_are_rejected() {
    let world = World::new(&format!("{IMAGES}pools: []\n"));
    let inputs = world.inputs(&[]);
    world.run_ok(&["create", "node-1", "--set", "clusterName=theirs"], &inputs);
    let resources = world.resources();
    let taken = world.run(&["create", "node-1"], &inputs);
    assert_eq!(taken.code, Some(3), "{taken}");
    assert!(
        taken.stderr.contains("already exists as a resource that belongs to `theirs` and is not overwritten"),
        "{taken}"
    );
    let refused = world.run(&["delete", "node-1", "--owner", "my-cluster"], &[]);
    assert_eq!(refused.code, Some(3), "{refused}");
    assert!(refused.stderr.contains("machine `node-1` belongs to `theirs`"), "{refused}");
    assert_eq!(world.resources(), resources);
    assert_eq!(world.run(&["delete", "node-2", "--owner", "my-cluster"], &[]).success().stdout, "node-2: not found\n");

    let settings = std::fs::read_to_string(world.path("settings.yaml")).unwrap();
    let ownerless = world.write("ownerless.yaml", &settings.replace("clusterName: my-cluster\n", ""));
    let pool = world.path("pool.yaml");
    let unowned = world.run(&["create", "node-1", "--settings", &ownerless, "--node-pool", &pool], &[]);
    assert_eq!(unowned.code, Some(2), "{unowned}");
    assert!(unowned.stderr.contains("`clusterName`"), "{unowned}");
    let tokenless = world.write("tokenless.yaml", &settings.replace(&format!("bootstrapToken: {TOKEN}\n"), ""));
    let without = world.run(&["create", "node-1", "--settings", &tokenless, "--node-pool", &pool], &[]);
    assert_eq!(without.code, Some(2), "{without}");
    assert!(without.stderr.contains("bootstrapToken"), "{without}");
    let elsewhere = world.run(&["create", "node-1", "-g", "other"], &inputs);
    assert_eq!(elsewhere.code, Some(2), "{elsewhere}");
    assert!(
        elsewhere.stderr.contains("differs from `resourceGroup: kubernetes-westus2-17813` in the settings"),
        "{elsewhere}"
    );
    assert_eq!(world.resources(), resources);
}

#[test]
fn missing_values_are_detected_in_azure() {
    let world = World::new(&format!("{IMAGES}pools: [{{name: a, capacity: 1}}]\n"));
    let settings = std::fs::read_to_string(world.path("settings.yaml")).unwrap();
    let less = settings.lines().filter(|line| !line.starts_with("vnetSubnetId")).collect::<Vec<_>>().join("\n");
    let less = world.write("less.yaml", &less);
    let pool = world.path("pool.yaml");
    let sources = ["--settings", &less, "--node-pool", &pool].map(str::to_owned);
    let without = world.run(&["create", "node-1"], &sources);
    assert_eq!(without.code, Some(2), "{without}");
    assert!(without.stderr.contains("vnetSubnetId"), "{without}");
    let made = world.run(&["create", "node-1", "--detect"], &sources).success();
    assert!(made.stderr.contains("`kubeletIdentityClientId` was not found"), "{made}");
    let nic = world.body("Microsoft.Network/networkInterfaces/node-1-nic");
    let address = &nic["properties"]["ipConfigurations"][0]["properties"];
    assert!(address["subnet"]["id"].as_str().unwrap().ends_with("/k8s-vnet/subnets/k8s-subnet"), "{nic}");
    assert!(nic["properties"]["networkSecurityGroup"]["id"].as_str().unwrap().ends_with("/k8s-nsg"), "{nic}");
}
