//! Documents that a machine cannot apply are rejected with every reason and its field.

use kiln_node_plan::{Credential, Desired, Facts, Image};
use kiln_types::SecretBytes;
use serde_json::{Value, json};

use crate::support::{config, facts};

fn reasons(over: Value, facts: &Facts) -> Vec<String> {
    match Desired::render(&config(over), facts) {
        Ok(_) => Vec::new(),
        Err(incompatible) => incompatible.0.into_iter().map(|violation| violation.path).collect(),
    }
}

#[test]
fn each_reason_names_its_field() {
    for (over, path) in [
        (json!({"kubelet": {"flags": {"--config": "/x"}}}), "spec.kubelet.flags[--config]"),
        (json!({"kubelet": {"flags": {"--v": "1\n2"}}}), "spec.kubelet.flags[--v]"),
        (json!({"kubelet": {"configuration": {"kind": "Pod"}}}), "spec.kubelet.configuration"),
        (
            json!({"kubelet": {"configuration": {"cpuManagerPolicy": "static"}}}),
            "spec.kubelet.configuration[cpuManagerPolicy]",
        ),
        (
            json!({"kubelet": {"configuration": {"reservedSystemCPUs": "0-4"}}}),
            "spec.kubelet.configuration[reservedSystemCPUs]",
        ),
        (
            json!({"os": {"swap": {"sizeMib": 1}}, "kubelet": {"configuration": {"failSwapOn": true}}}),
            "spec.kubelet.configuration[failSwapOn]",
        ),
        (
            json!({"kubelet": {"credentialProviders": [{"name": "a"}]}}),
            "spec.kubelet.credentialProviders[a].matchImages",
        ),
        (json!({"kubelet": {"configuration": {"cgroupDriver": "cgroupfs"}}}), "spec.runtime.systemdCgroup"),
        (
            json!({"runtime": {"systemdCgroup": false}, "kubelet": {"configuration": {"cgroupDriver": "systemd"}}}),
            "spec.runtime.systemdCgroup",
        ),
        (json!({"runtime": {"configuration": {"version": 9}}}), "spec.runtime.configuration[version]"),
        (json!({"runtime": {"configuration": {"x": [null]}}}), "spec.runtime.configuration[x]"),
        (json!({"runtime": {"defaultRuntime": "../sh"}}), "spec.runtime.defaultRuntime"),
        (json!({"registries": [{"host": ".."}]}), "spec.registries[..]"),
        (json!({"network": {"plugin": "weave"}}), "spec.network.plugin"),
        (json!({"network": {"plugin": "azure", "mode": "overlay"}}), "spec.network.mode"),
        (
            json!({"network": {"plugin": "azure", "mode": "bridge", "blockMetadata": true}}),
            "spec.network.blockMetadata",
        ),
        (
            json!({"network": {"plugin": "azure", "mode": "bridge", "blockWireServer": true}}),
            "spec.network.blockWireServer",
        ),
        (json!({"os": {"kernelModules": ["../x"]}}), "spec.os.kernelModules"),
        (json!({"os": {"kernelArguments": ["a=$(x)"]}}), "spec.os.kernelArguments"),
        (json!({"os": {"hugePages": {"pages2mi": 9_000_000}}}), "spec.os.hugePages"),
        (json!({"os": {"limits": {"LimitNOFILE": "1\n[Install]"}}}), "spec.os.limits[LimitNOFILE]"),
        (json!({"os": {"time": {"servers": ["a\nb"]}}}), "spec.os.time.servers"),
        (json!({"os": {"time": {"zone": "../../etc/shadow"}}}), "spec.os.time.zone"),
        (json!({"os": {"proxy": {"noProxy": ["a\nb"]}}}), "spec.os.proxy.noProxy"),
        (json!({"cluster": {"dns": {"search": ["a b"]}}}), "spec.cluster.dns.search"),
        (json!({"platform": {"users": [{"name": "root"}]}}), "spec.platform.users[root]"),
        (json!({"platform": {"users": [{"name": "a", "shell": "sh"}]}}), "spec.platform.users[a].shell"),
        (json!({"platform": {"users": [{"name": "a", "groups": ["a:b"]}]}}), "spec.platform.users[a].groups"),
        (json!({"platform": {"temporaryDisk": {"kubeletRoot": true}}}), "spec.platform.temporaryDisk.kubeletRoot"),
        (
            json!({"platform": {"temporaryDisk": {"mountPath": "/mnt", "filesystem": "fat"}}}),
            "spec.platform.temporaryDisk.filesystem",
        ),
        (json!({"files": [{"path": "/etc/kiln/current/kubelet.json"}]}), "spec.files[/etc/kiln/current/kubelet.json]"),
        (json!({"files": [{"path": "/var/lib/kubelet/pki/x"}]}), "spec.files[/var/lib/kubelet/pki/x]"),
        // Other spellings of the same folders, through links that distributions have.
        (json!({"files": [{"path": "/lib/kiln/image.json"}]}), "spec.files[/lib/kiln/image.json]"),
        (json!({"files": [{"path": "/var/run/kiln/ready"}]}), "spec.files[/var/run/kiln/ready]"),
        (json!({"files": [{"path": "/var/run/systemd/system/x"}]}), "spec.files[/var/run/systemd/system/x]"),
        (json!({"files": [{"path": "/etc/systemd/system/x.service"}]}), "spec.files[/etc/systemd/system/x.service]"),
        (json!({"files": [{"path": "/etc/shadow"}]}), "spec.files[/etc/shadow]"),
        (
            json!({"files": [{"path": "/usr/lib/systemd/system/x.service"}]}),
            "spec.files[/usr/lib/systemd/system/x.service]",
        ),
        (json!({"files": [{"path": "/etc/fstab", "content": "x"}]}), "spec.files[/etc/fstab]"),
        (
            json!({"files": [{"path": "/etc/sysctl.d/90-kiln.conf"}], "os": {"sysctl": {"vm.swappiness": "1"}}}),
            "spec.files[/etc/sysctl.d/90-kiln.conf]",
        ),
        (json!({"units": [{"name": "kiln-config.service", "masked": true}]}), "spec.units[kiln-config.service]"),
        (json!({"credentialFrom": {"kind": "file", "name": "/run/token"}}), "spec.credentialFrom"),
    ] {
        assert_eq!(reasons(over.clone(), &facts()), [path], "{over}");
    }
}

#[test]
fn all_reasons_are_reported_together() {
    let over = json!({"network": {"plugin": "weave"}, "os": {"kernelModules": ["../x"]}, "kubelet": {"flags": {"--kubeconfig": "x"}}});
    assert_eq!(reasons(over, &facts()).len(), 3);
}

#[test]
fn image_that_lists_its_programs_has_no_others() {
    let image = Image {
        kubelets: [("1.32.1".to_owned(), "/opt/kubelet".to_owned())].into(),
        runtimes: [("2.0.1".to_owned(), "/opt/containerd".to_owned())].into(),
        ..Image::default()
    };
    let facts = Facts { image, ..facts() };
    assert_eq!(
        reasons(json!({"runtime": {"version": "1.7.27"}}), &facts),
        ["spec.kubelet.version", "spec.runtime.version"]
    );
    assert_eq!(reasons(json!({"kubelet": {"version": "1.32.1"}}), &facts), Vec::<String>::new());
}

#[test]
fn joined_node_needs_no_credential() {
    let over = || json!({"credentialFrom": {"kind": "file", "name": "/run/token"}});
    assert_eq!(reasons(over(), &Facts { joined: true, ..facts() }), Vec::<String>::new());
    let credential = Credential::parse(&SecretBytes::new("abcdef.0123456789abcdef")).ok();
    assert_eq!(reasons(over(), &Facts { credential, ..facts() }), Vec::<String>::new());
}

#[test]
fn invalid_documents_are_rejected_too() {
    assert_eq!(reasons(json!({"cluster": {"endpoint": "http://x"}}), &facts()), ["spec.cluster.endpoint"]);
}
