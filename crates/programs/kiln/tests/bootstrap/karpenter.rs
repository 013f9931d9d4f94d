//! Hashes and reasons for drift as Karpenter computes them.

use crate::fixture::Folder;

/// The first row of the recordings, for runs without them.
#[test]
fn class_hash_is_karpenters_decimal() {
    let folder = Folder::new();
    folder.write(
        "class.yaml",
        "kind: AKSNodeClass\nspec:\n  vnetSubnetID: subnet-id\n  osDiskSizeGB: 30\n  imageFamily: Ubuntu2204\n  tags: {keyTag-1: valueTag-1}\n  maxPods: 100\n  \
         kubelet: {cpuManagerPolicy: static, cpuCFSQuota: true, cpuCFSQuotaPeriod: 100ms, imageGCHighThresholdPercent: 85, imageGCLowThresholdPercent: 80, \
         topologyManagerPolicy: none, allowedUnsafeSysctls: [net.core.somaxconn], containerLogMaxSize: 10Mi, containerLogMaxFiles: 10}\n",
    );
    assert_eq!(folder.run(&["hash", "--node-class", "class.yaml"]).success().stdout, "4108492229247269128\n");
    let json = folder.run(&["hash", "--node-class", "class.yaml", "--output", "json"]).success().json();
    assert_eq!((json["hash"].as_str(), json["version"].as_str()), (Some("4108492229247269128"), Some("v3")));
}

#[test]
fn drift_reasons_are_karpenters() {
    let folder = Folder::new();
    folder.write("claim.yaml", "kind: NodeClaim\nmetadata: {name: c}\nspec: {}\nstatus: {nodeName: n, providerID: azure:///vm, imageID: /old}\n");
    folder.write("node.yaml", "kind: Node\nmetadata: {name: n, labels: {kubernetes.azure.com/kubelet-identity-client-id: 33333333-3333-3333-3333-333333333333}}\nstatus: {nodeInfo: {kubeletVersion: v1.33.6}}\n");
    let drift = |class_status: &str, settings: &str| {
        folder.write(
            "class.yaml",
            &format!("kind: AKSNodeClass\nmetadata: {{name: d}}\nspec: {{}}\nstatus:\n{class_status}"),
        );
        folder.write("s.yaml", settings);
        folder.run(&[
            "drift",
            "--node-claim",
            "claim.yaml",
            "--node-class",
            "class.yaml",
            "--node",
            "node.yaml",
            "--settings",
            "s.yaml",
            "--output",
            "json",
        ])
    };
    let same = "kubeletIdentityClientId: 33333333-3333-3333-3333-333333333333\n";
    let version = |version: &str| {
        format!("  kubernetesVersion: {version}\n  conditions: [{{type: KubernetesVersionReady, status: \"True\"}}]\n")
    };
    let behind = drift(&version("1.33.7"), same);
    assert_eq!((behind.code, behind.json()["karpenter"].as_str()), (Some(5), Some("K8sVersionDrift")), "{behind}");
    // Replacing a newer node would create the same node again.
    assert_eq!(drift(&version("1.33.5"), same).code, Some(0));
    let identity = drift(&version("1.33.6"), "kubeletIdentityClientId: 55555555-5555-5555-5555-555555555555\n");
    assert_eq!(identity.json()["karpenter"], "KubeletIdentityDrift");
    let image = drift("  images: [{id: /new}]\n  conditions: [{type: ImagesReady, status: \"True\"}]\n", same);
    assert_eq!(
        (image.json()["karpenter"].as_str(), image.json()["needs"].as_str()),
        (Some("ImageDrift"), Some("new-node"))
    );
}
