//! A node boots from the custom data that `kiln bootstrap` renders and `kiln launch` sends: both ends of the contract in one test.

mod support;

use std::fs;

use kiln_aks_formats::to_base64;
use kiln_bootstrap::{Bootstrapper as _, Kilnd, Resolved, Source, SourceKind, SourcePosition, resolve};
use serde_json::json;
use support::program::kilnd_on;
use support::world::{folder, image};

const AUTHORITY: &str = "-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n";
const TOKEN: &str = "abcdef.0123456789abcdef";

fn inputs() -> Resolved {
    let mut settings = Source::new(SourceKind::Settings);
    let ca = to_base64(AUTHORITY);
    for (field, value) in [
        ("resourceGroup", "group"),
        ("clusterEndpoint", "https://prod.example:443"),
        ("kubernetesVersion", "1.33.7"),
        ("caBundle", ca.as_str()),
        ("bootstrapToken", TOKEN),
    ] {
        settings.set(field, value.into(), SourcePosition::Program).expect("a field");
    }
    let mut class = Source::new(SourceKind::NodeClass);
    class.set("maxPods", json!(42), SourcePosition::Program).expect("a field");
    resolve(&[settings, class])
}

#[test]
fn launched_machine_boots_from_custom_data_and_joins_with_its_token() {
    let folder = folder();
    let root = folder.path();
    image(root);
    // Azure writes custom data to the provisioning media unchanged.
    let xml = format!(
        "<Environment><LinuxProvisioningConfigurationSet><HostName>node-7</HostName><CustomData>{}</CustomData>\
         </LinuxProvisioningConfigurationSet></Environment>",
        Kilnd.custom_data(&inputs()).expect("rendered").expose()
    );
    fs::create_dir(root.join("cd")).expect("a folder");
    fs::write(root.join("cd/ovf-env.xml"), xml).expect("written");
    let output = kilnd_on(root).args(["--time-scale", "1000", "boot"]).output().expect("kilnd runs");
    assert!(output.status.success(), "{output:?}");
    let current = root.join("etc/kiln").join(fs::read_link(root.join("etc/kiln/current")).expect("a link"));
    let read = |name: &str| fs::read_to_string(current.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(read("ca.crt"), AUTHORITY);
    assert!(read("kubelet.json").contains("\"maxPods\": 42") || read("kubelet.json").contains("\"maxPods\":42"));
    let join = read("bootstrap-kubeconfig");
    assert!(
        join.contains(TOKEN) && join.contains("https://prod.example:443"),
        "the bootstrap kubeconfig is incomplete"
    );
    assert!(!read("config.json").contains(TOKEN), "the document contains no secret");
}
