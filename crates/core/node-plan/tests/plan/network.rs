//! The pod network of a node: CNI configuration, kernel baseline, MTU.

use kiln_node_config::NodeConfig;
use kiln_node_plan::{Desired, DesiredFile, Facts, FileContent, ImageSysctl, Plan};
use serde_json::{Value, json};

use crate::support::{Machine, config, facts};

const RENDERED: &str = "/etc/cni/net.d/10-containerd-net.conflist";

fn bridge(over: &Value) -> NodeConfig {
    let mut network = json!({"plugin": "bridge"});
    kiln_types::json::merge_patch(&mut network, over);
    config(json!({"network": network}))
}

fn desired(config: &NodeConfig, facts: &Facts) -> Desired {
    Desired::render(config, facts).expect("compatible")
}

fn outside(desired: &Desired, path: &str) -> Option<String> {
    let text = |file: &DesiredFile| match &file.content {
        FileContent::Bytes(bytes) => String::from_utf8_lossy(bytes).into_owned(),
        other => panic!("{other:?}"),
    };
    desired.elsewhere.iter().find(|file| file.path == path).map(text)
}

fn steps(plan: &Plan) -> Vec<String> {
    plan.steps.iter().map(ToString::to_string).collect()
}

#[test]
fn pod_range_of_a_bridge_comes_from_the_node() {
    let desired = desired(&bridge(&json!({})), &facts());
    let template = desired.text("cni.template").expect("a template");
    assert!(template.contains("{{range $i, $range := .PodCIDRRanges}}"), "{template}");
    let containerd = desired.text("containerd.toml").expect("a configuration");
    assert!(containerd.contains(r#"conf_template = "/etc/kiln/current/cni.template""#), "{containerd}");
    // No file with a fixed range, which every node of the pool would share.
    assert!(desired.elsewhere.iter().all(|file| !file.path.starts_with("/etc/cni/")), "{:?}", desired.elsewhere);
    let cleanup = outside(&desired, "/etc/tmpfiles.d/90-kiln-cni.conf");
    assert_eq!(cleanup.as_deref(), Some("r! /etc/cni/net.d/10-containerd-net.conflist\n"));
}

#[test]
fn other_plugins_use_no_template() {
    for plugin in ["none", "azure"] {
        let desired = desired(&config(json!({"network": {"plugin": plugin}})), &facts());
        assert!(!desired.text("containerd.toml").expect("a configuration").contains("conf_template"));
        assert!(desired.file("cni.template").is_none());
    }
}

#[test]
fn changed_template_replaces_the_rendered_configuration() {
    let (before, after) = (bridge(&json!({})), bridge(&json!({"mtu": 1400})));
    let mut machine = Machine::default();
    machine.apply(None, &before);
    let plan = steps(&machine.apply(Some(&before), &after));
    let at = |step: &str| plan.iter().position(|one| one == step).unwrap_or_else(|| panic!("{step}: {plan:?}"));
    let delete = at(&format!("delete {RENDERED}"));
    // containerd renders it when the kubelet starts and reports the range.
    assert!(at("restart containerd.service") < delete && at("stop kubelet.service") < delete, "{plan:?}");
    assert!(delete < at("start kubelet.service"), "{plan:?}");
    assert!(machine.plan(Some(&after), &after).is_empty());
    let none = config(json!({"network": {"plugin": "none"}}));
    assert!(steps(&machine.apply(Some(&after), &none)).contains(&format!("delete {RENDERED}")));
}

const BASELINE: &str = "/etc/sysctl.d/05-kiln-network.conf";
const MODULES: &str = "/etc/modules-load.d/90-kiln.conf";

#[test]
fn bridge_gets_its_kernel_settings_and_modules() {
    let desired = desired(&bridge(&json!({})), &facts());
    assert_eq!(
        outside(&desired, BASELINE).as_deref(),
        Some(
            "net.ipv4.ip_forward = 1\nnet.bridge.bridge-nf-call-iptables = 1\nnet.bridge.bridge-nf-call-ip6tables = 1\n"
        )
    );
    assert_eq!(outside(&desired, MODULES).as_deref(), Some("br_netfilter\nnf_conntrack\noverlay\n"));
    let paths: Vec<&str> = desired.kernel.iter().map(|setting| setting.path.as_str()).collect();
    assert!(paths.contains(&"/proc/sys/net/ipv4/ip_forward"), "{paths:?}");
    assert!(desired.warnings.is_empty());
}

#[test]
fn network_of_an_agent_gets_no_baseline() {
    for over in [json!({}), json!({"network": {"plugin": "none"}})] {
        let desired = desired(&config(over), &facts());
        assert_eq!((outside(&desired, BASELINE), outside(&desired, MODULES)), (None, None));
        assert!(desired.kernel.is_empty());
    }
}

#[test]
fn ipv6_is_forwarded_where_services_or_the_node_have_ipv6() {
    let forwards = |over: Value| {
        let mut document = json!({"network": {"plugin": "bridge"}});
        kiln_types::json::merge_patch(&mut document, &over);
        let text = outside(&desired(&config(document), &facts()), BASELINE).expect("a baseline");
        text.contains("net.ipv6.conf.all.forwarding = 1\n")
    };
    assert!(!forwards(json!({"cluster": {"dns": {"serviceIps": ["10.0.0.10"]}}})));
    assert!(forwards(json!({"cluster": {"dns": {"serviceIps": ["10.0.0.10", "fd00::a"]}}})));
    assert!(forwards(json!({"kubelet": {"nodeIp": "fd02::4"}})));
}

#[test]
fn document_and_image_are_stronger_than_the_baseline() {
    let document = config(json!({
        "network": {"plugin": "bridge"}, "os": {"sysctl": {"net/ipv4/ip_forward": "0"}},
    }));
    let by_document = desired(&document, &facts());
    assert!(!outside(&by_document, BASELINE).expect("a baseline").contains("ip_forward"));
    let values = |desired: &Desired| -> Vec<String> {
        let forward = desired.kernel.iter().filter(|setting| setting.path.ends_with("/ip_forward"));
        forward.map(|setting| setting.value.clone()).collect()
    };
    assert_eq!(values(&by_document), ["0"]);

    let image = |value: &str| {
        let file = "/usr/lib/sysctl.d/99-image.conf".to_owned();
        let setting = ImageSysctl { value: value.to_owned(), file };
        Facts { sysctls: [("net/ipv4/ip_forward".to_owned(), setting)].into(), ..facts() }
    };
    let kept = desired(&bridge(&json!({})), &image("0"));
    assert!(!outside(&kept, BASELINE).expect("a baseline").contains("ip_forward"));
    assert_eq!(values(&kept), Vec::<String>::new());
    assert!(kept.warnings[0].starts_with("`/usr/lib/sysctl.d/99-image.conf` sets `net.ipv4.ip_forward` to `0`"));
    let same = desired(&bridge(&json!({})), &image("1"));
    assert_eq!((values(&same), same.warnings), (vec!["1".to_owned()], Vec::new()));
}

#[test]
fn sysctl_of_a_module_loads_the_module() {
    let sysctl = json!({"net.netfilter.nf_conntrack_max": "131072", "vm.swappiness": "1"});
    let desired = desired(&config(json!({"os": {"sysctl": sysctl}})), &facts());
    assert_eq!(outside(&desired, MODULES).as_deref(), Some("nf_conntrack\n"));
    let module =
        |name: &str| desired.kernel.iter().find(|setting| setting.path.ends_with(name)).expect("a setting").module;
    assert_eq!((module("nf_conntrack_max"), module("swappiness")), (Some("nf_conntrack"), None));
    let listed = json!({"sysctl": {"net.bridge.bridge-nf-call-iptables": "1"}, "kernelModules": ["br-netfilter"]});
    let desired = Desired::render(&config(json!({"os": listed})), &facts()).expect("compatible");
    assert_eq!(outside(&desired, MODULES).as_deref(), Some("br-netfilter\n"));
}

#[test]
fn mtu_is_a_drop_in_of_the_network_file_and_no_link_file() {
    let files = |facts: &Facts| -> Vec<String> {
        let desired = desired(&config(json!({"network": {"mtu": 1400}})), facts);
        let written = desired.elsewhere.iter().filter(|file| file.path.starts_with("/etc/systemd/network/"));
        assert!(desired.kernel.iter().any(|one| one.path == "/sys/class/net/eth0/mtu" && one.value == "1400"));
        written.map(|file| format!("{}: {}", file.path, outside(&desired, &file.path).expect("a file"))).collect()
    };
    let text = "[Link]\nMTUBytes=1400\n";
    let known = Facts { network_file: Some("80-dhcp.network".to_owned()), ..facts() };
    let drop_in = |name: &str| format!("/etc/systemd/network/{name}.network.d/90-kiln.conf: {text}");
    // netplan and cloud-init may write their files later.
    assert_eq!(files(&facts()), ["10-cloud-init-eth0", "10-netplan-eth0"].map(drop_in));
    assert_eq!(files(&known), ["10-cloud-init-eth0", "10-netplan-eth0", "80-dhcp"].map(drop_in));
}
