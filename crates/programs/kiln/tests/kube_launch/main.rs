//! `kiln launch` with Karpenter objects of a real API server.

#[path = "../e2e_launch/world.rs"]
#[expect(dead_code, reason = "only the other test target kills processes")]
mod world;

use control_plane::{shared, unique};
use serde_json::json;

use world::{IMAGES, World};

#[test]
fn pool_and_class_of_a_claim_are_read_from_the_cluster_and_missing_settings_are_detected() {
    let plane = shared();
    plane.apply_karpenter_crds().unwrap_or_else(|error| panic!("{error}"));
    let [class, pool, claim] = ["class", "pool", "claim"].map(unique);
    let reference = json!({"group": "karpenter.azure.com", "kind": "AKSNodeClass", "name": class});
    let requirement = |key: &str, value: &str| json!({"key": key, "operator": "In", "values": [value]});
    let size = requirement("node.kubernetes.io/instance-type", "Standard_D4s_v3");
    let objects = [
        json!({
            "apiVersion": "karpenter.azure.com/v1beta1", "kind": "AKSNodeClass", "metadata": {"name": class},
            "spec": {"imageFamily": "Ubuntu2404", "osDiskSizeGB": 70, "maxPods": 42},
        }),
        json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": pool},
            "spec": {"template": {"spec": {"nodeClassRef": reference, "requirements": [size]}}},
        }),
        json!({
            "apiVersion": "karpenter.sh/v1", "kind": "NodeClaim",
            "metadata": {"name": claim, "labels": {"karpenter.sh/nodepool": pool}},
            "spec": {"nodeClassRef": reference, "requirements": [size, requirement("topology.kubernetes.io/zone", "westus2-3")]},
        }),
    ];
    for object in &objects {
        plane.apply(object).unwrap_or_else(|error| panic!("{error}"));
    }
    let world = World::new(&format!("{IMAGES}pools: [{{name: a, capacity: 1}}]\n"));
    let settings = std::fs::read_to_string(world.path("settings.yaml")).unwrap();
    let found = ["vnetSubnetId", "kubernetesVersion", "caBundle", "clusterEndpoint"];
    let less: Vec<&str> = settings.lines().filter(|line| !found.iter().any(|name| line.starts_with(name))).collect();
    let less = world.write("less.yaml", &less.join("\n"));
    let kubeconfig = plane.kubeconfig().display().to_string();
    let arguments =
        ["create", "node-1", "--settings", &less, "--claim", &claim, "--kubeconfig", &kubeconfig, "--detect"];
    let made = world.run(&arguments, &[]).success();
    assert!(made.stdout.contains("/images/2404gen2containerd/versions/202611.3.0"), "{made}");
    let vm = world.body("Microsoft.Compute/virtualMachines/node-1");
    assert_eq!(vm["zones"], json!(["3"]));
    assert_eq!(vm["tags"]["karpenter.sh_nodepool"], json!(pool));
    let properties = &vm["properties"];
    assert_eq!(properties["hardwareProfile"]["vmSize"], "Standard_D4s_v3");
    assert_eq!(properties["storageProfile"]["osDisk"]["diskSizeGB"], 70);
    let script = kiln_aks_formats::from_base64(properties["osProfile"]["customData"].as_str().unwrap()).unwrap();
    let script = String::from_utf8(script).unwrap();
    assert!(script.contains("--max-pods=42"), "{script}");
    assert!(script.contains(&kiln_aks_formats::to_base64(plane.authority())), "the CA of the cluster");

    let gone = unique("gone");
    let missing = world.run(&["template", "--settings", &less, "--claim", &gone, "--kubeconfig", &kubeconfig], &[]);
    assert_eq!(missing.code, Some(1), "{missing}");
    assert!(missing.stderr.contains(&format!("NodeClaim `{gone}` does not exist")), "{missing}");
}
