//! The JoinConfiguration of a launch, parsed by kubeadm's own types.

use std::path::Path;
use std::process::Command;

use kiln_aks_formats::{from_base64, to_base64};
use kiln_bootstrap::{Bootstrapper, KubeadmJoin, Resolved, Source, SourceKind, SourcePosition, resolve};
use kube::config::Kubeconfig;
use serde_json::{Value, json};
use test_deps::{Cache, TestDep};

const AUTHORITY: &str = "-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n";

fn inputs(version: &str) -> Resolved {
    let mut settings = Source::new(SourceKind::Settings);
    let ca = to_base64(AUTHORITY);
    for (field, value) in [
        ("resourceGroup", "group"),
        ("clusterEndpoint", "https://my-cluster.example:6443"),
        ("kubernetesVersion", version),
        ("caBundle", ca.as_str()),
        ("bootstrapToken", "abcdef.0123456789abcdef"),
    ] {
        settings.set(field, value.into(), SourcePosition::Program).unwrap();
    }
    let mut pool = Source::new(SourceKind::NodePool);
    pool.set("taints", json!(["dedicated=gpu:NoSchedule", "late:NoExecute"]), SourcePosition::Program).unwrap();
    pool.set("labels", json!({"tier": "web"}), SourcePosition::Program).unwrap();
    let mut class = Source::new(SourceKind::NodeClass);
    class.set("maxPods", json!(42), SourcePosition::Program).unwrap();
    resolve(&[settings, pool, class])
}

/// The path and content of each file that the custom data writes.
fn files(version: &str) -> Vec<(String, Value)> {
    let data = KubeadmJoin.custom_data(&inputs(version)).unwrap();
    let text = String::from_utf8(from_base64(data.expose()).unwrap()).unwrap();
    let config: Value = serde_json::from_str(text.strip_prefix("#cloud-config\n").unwrap()).unwrap();
    let file = |file: &Value| {
        let content = from_base64(file["content"].as_str().unwrap()).unwrap();
        (file["path"].as_str().unwrap().to_owned(), serde_json::from_slice(&content).unwrap())
    };
    config["write_files"].as_array().unwrap().iter().map(file).collect()
}

fn join(version: &str) -> Value {
    files(version).into_iter().find(|(path, _)| path.ends_with("join.json")).unwrap().1
}

/// The document as kubeadm's types parse it, or their error.
fn read(folder: &Path, document: &Value) -> Result<Value, String> {
    let program = Cache::of_user().unwrap().find(TestDep::KubeadmTypes).unwrap_or_else(|missing| panic!("{missing}"));
    let file = folder.join("join.json");
    std::fs::write(&file, document.to_string()).unwrap();
    let output = Command::new(program).arg(&file).output().unwrap();
    if output.status.success() {
        Ok(serde_json::from_slice(&output.stdout).unwrap())
    } else {
        Err(String::from_utf8(output.stderr).unwrap())
    }
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

#[test]
fn kubeadm_parses_the_document_in_both_api_versions() {
    let folder = folder();
    for (version, api_version) in [
        ("1.30.4", "kubeadm.k8s.io/v1beta3"),
        ("1.31.0", "kubeadm.k8s.io/v1beta4"),
        ("1.34.4", "kubeadm.k8s.io/v1beta4"),
    ] {
        let document = join(version);
        assert_eq!(document["apiVersion"], api_version);
        let parsed = read(folder.path(), &document).unwrap_or_else(|error| panic!("{version}: {error}"));
        let registration = &parsed["nodeRegistration"];
        assert_eq!(
            registration["taints"],
            json!([{"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}, {"key": "late", "effect": "NoExecute"}]),
            "{version}"
        );
        let arguments = registration["kubeletExtraArgs"].as_array().unwrap();
        let value =
            |name: &str| arguments.iter().find(|one| one["name"] == name).map(|one| one["value"].as_str().unwrap());
        assert_eq!(value("max-pods"), Some("42"), "{version}");
        assert!(value("node-labels").unwrap().contains("tier=web"), "{version}");
        assert_eq!(parsed["discovery"]["tlsBootstrapToken"], "abcdef.0123456789abcdef");
        // The discovery file is written by the same custom data.
        let path = parsed["discovery"]["file"]["kubeConfigPath"].as_str().unwrap();
        let (_, kubeconfig) = files(version).into_iter().find(|(name, _)| name == path).unwrap();
        let kubeconfig = Kubeconfig::from_yaml(&kubeconfig.to_string()).unwrap();
        let cluster = kubeconfig.clusters[0].cluster.clone().unwrap();
        assert_eq!(cluster.server.as_deref(), Some("https://my-cluster.example:6443"));
        assert_eq!(cluster.certificate_authority_data, Some(to_base64(AUTHORITY)));
    }
}

#[test]
fn kubeadm_rejects_an_invalid_document() {
    let folder = folder();
    let error_after = |version: &str, change: fn(&mut Value)| {
        let mut document = join(version);
        change(&mut document);
        read(folder.path(), &document).expect_err("an error")
    };
    let unknown = error_after("1.34.4", |document| document["nodeRegistration"]["taintz"] = json!([]));
    assert!(unknown.contains("unknown field \"nodeRegistration.taintz\""), "{unknown}");
    let wrong_type =
        error_after("1.34.4", |document| document["nodeRegistration"]["taints"] = json!("dedicated=gpu:NoSchedule"));
    assert!(wrong_type.contains("taints"), "{wrong_type}");
    // Arguments in the format of v1beta3 in a v1beta4 document, and vice versa.
    let older =
        error_after("1.34.4", |document| document["nodeRegistration"]["kubeletExtraArgs"] = json!({"max-pods": "42"}));
    assert!(older.contains("kubeletExtraArgs"), "{older}");
    let newer = error_after("1.30.4", |document| {
        document["nodeRegistration"]["kubeletExtraArgs"] = json!([{"name": "max-pods", "value": "42"}]);
    });
    assert!(newer.contains("kubeletExtraArgs"), "{newer}");
    let version = error_after("1.34.4", |document| document["apiVersion"] = json!("kubeadm.k8s.io/v1beta9"));
    assert!(version.contains("v1beta9"), "{version}");
}
