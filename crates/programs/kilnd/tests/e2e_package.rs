//! The Debian package and the RPM on a running node, with real dpkg, rpm and systemd: installing has no effect until `kilnd enable`, and
//! upgrades, `kilnd disable` and removal keep the node running.

mod booted;
mod packaged;

use booted::ONE;
use booted::document::{max_pods, ovf_env};
use booted::stage::{Stage, pods};
use packaged::{Node, OWN_ARGUMENT};

/// With units and drop-ins in a folder that systemd reads, containerd would not come up after its next restart.
#[test]
fn installed_package_has_no_effect_until_kilnd_enable() {
    let mut node = Node::boot("inert");
    let (before, running) = (node.systemd_files(), node.processes());
    node.dpkg_install("1.0.0");
    assert_eq!(node.processes(), running, "services keep running");
    node.restart_services();
    assert_eq!(node.machine.property("kubelet.service", "NeedDaemonReload"), "no");
    node.assert_systemd_files(&before);
    node.machine.reboot();
    node.wait_for_services();
    node.assert_systemd_files(&before);
    assert_eq!(node.machine.property("kiln-config.service", "LoadState"), "not-found");
    assert!(!node.machine.exists("/run/kiln") && !node.machine.exists("/etc/kiln"));

    // An upgrade of a package that is not enabled.
    node.dpkg_install("1.0.1");
    node.restart_services();
    node.assert_systemd_files(&before);

    let refused = node.kilnd(&["enable"]);
    assert_eq!(refused.code, Some(1), "{refused}");
    assert!(refused.stdout.contains("nothing was changed\nhint: run `kilnd enable --yes`"), "{refused}");
    let shown = node.kilnd_output(&["enable", "--dry-run"]);
    for line in [
        "create /etc/systemd/system/kiln-config.service -> /usr/lib/kiln/units/kiln-config.service",
        "kubelet.service:",
        &format!("  - ExecStart=/usr/bin/kubelet {OWN_ARGUMENT} (/usr/lib/systemd/system/kubelet.service)"),
        "  + ConditionPathExists=/run/kiln/ready",
        "containerd.service:",
        "  - ExecStart=/usr/bin/containerd (/usr/lib/systemd/system/containerd.service)",
        "takes effect at the next boot; no service is restarted, and until then services restart as before",
    ] {
        assert!(shown.lines().any(|known| known == line), "`{line}` is not in\n{shown}");
    }
    node.assert_systemd_files(&before);

    // Enabled, but not yet rebooted: the gate would be closed.
    let running = node.processes();
    node.kilnd_output(&["enable", "--yes"]);
    assert_eq!(node.processes(), running);
    node.machine.shell("systemctl daemon-reload");
    node.restart_services();
    assert!(node.own_configuration());
    node.assert_not_started();
    assert_eq!(node.kilnd_output(&["enable", "--yes"]), "kilnd is enabled; nothing to do\n");
    // An upgrade in this state, to a version with another name for a drop-in.
    let running = node.processes();
    node.dpkg_install_renamed("1.1.0");
    assert_eq!(node.processes(), running);
    node.restart_services();
    assert!(node.own_configuration());
    node.assert_not_started();
    node.kilnd_output(&["disable", "--yes"]);
    node.assert_systemd_files(&before);
    node.restart_services();
}

#[test]
fn enabled_node_keeps_running_over_upgrade_disable_and_removal() {
    let mut node = Node::boot("enabled");
    let (before, files) = (node.systemd_files(), node.etc_files());
    node.dpkg_install("1.0.0");
    node.kilnd_output(&["enable", "--yes"]);
    node.machine.hardware("dmi/product_uuid", ONE);
    let document = max_pods(1, 30).with("/spec/files", serde_json::json!([{"path": "/etc/issue", "content": "kiln\n"}, {"path": "/etc/new-folder/a", "content": "a\n"}]));
    node.machine.hardware("cd/ovf-env.xml", ovf_env("node-1", Some(&document)));
    node.machine.reboot();
    Stage::wait_committed(&node.machine, 1);
    assert_eq!(pods(&node.machine), Some(30));
    assert!(!node.own_configuration(), "the kubelet runs with kilnd's arguments");

    // The new version has another name for a drop-in, and one more unit.
    let running = node.processes();
    let watch = node.machine.property("kiln-watch.service", "MainPID");
    node.dpkg_install_renamed("1.1.0");
    assert_eq!(node.processes(), running, "an upgrade restarts neither kubelet nor containerd");
    assert_ne!(node.machine.property("kiln-watch.service", "MainPID"), watch, "kiln-watch runs the new program");
    assert!(node.machine.exists("/etc/systemd/system/kubelet.service.d/zz-renamed.conf"));
    assert_eq!(node.dangling_links(), "", "links of the old version are removed");
    node.restart_services();
    assert!(!node.own_configuration(), "the gate is open, and the drop-in of the new version is in effect");
    node.machine.reboot();
    Stage::wait_for_kubelet(&node.machine, 1);
    node.wait_for_services();
    assert!(!node.own_configuration());

    // Disabled: the running kubelet stays, the next one is the node's own.
    let running = node.processes();
    let shown = node.kilnd_output(&["disable", "--dry-run"]);
    assert!(shown.contains("remove /etc/systemd/system/kubelet.service.d/zz-renamed.conf\n"), "{shown}");
    assert_eq!(node.kilnd(&["disable"]).code, Some(1));
    assert_eq!(node.processes(), running);
    node.kilnd_output(&["disable", "--yes"]);
    assert_eq!(node.processes(), running, "services keep running");
    node.assert_systemd_files(&before);
    assert_eq!(node.etc_files(), files, "this machine was a node before kilnd: its files are restored");
    node.restart_services();
    assert!(node.own_configuration());
    node.machine.reboot();
    node.wait_for_services();
    assert!(node.own_configuration());

    // Removed while enabled, with the gate open.
    node.kilnd_output(&["enable", "--yes"]);
    node.machine.reboot();
    node.wait_for_services();
    assert!(!node.own_configuration());
    let running = node.processes();
    node.machine.shell("dpkg --remove kilnd");
    assert_eq!(node.processes(), running, "removal restarts neither kubelet nor containerd");
    node.assert_systemd_files(&before);
    assert!(!node.machine.exists("/usr/bin/kilnd") && !node.machine.exists("/run/kiln/ready"));
    node.restart_services();
    assert!(node.own_configuration());
    node.machine.shell("dpkg --purge kilnd");
    assert!(!node.machine.exists("/etc/kiln") && !node.machine.exists("/var/lib/kiln"));
    node.machine.reboot();
    node.wait_for_services();
    assert!(node.own_configuration());
}

/// A gate that is closed because no document has arrived yet does not survive the package.
#[test]
fn removal_with_a_closed_gate_lets_the_kubelet_start() {
    let mut node = Node::boot("closed");
    node.dpkg_install("1.0.0");
    node.kilnd_output(&["enable", "--yes"]);
    node.machine.hardware("dmi/product_uuid", ONE);
    node.machine.reboot();
    node.machine.wait_until("the kubelet was skipped", |machine| {
        (machine.property("kubelet.service", "ConditionResult") == "no").then_some(())
    });
    // A power cut in the middle of a removal: links without their package.
    node.machine.shell("dpkg --force-all --remove kilnd");
    node.machine.shell("systemctl start containerd kubelet");
    node.wait_for_services();
    assert!(node.own_configuration());
}

/// Debian's rpm works on the root of the machine. Its scriptlets run there, with the machine's systemd.
#[test]
fn rpm_has_no_effect_until_kilnd_enable_and_its_removal_disables_kilnd() {
    let node = Node::boot("rpm");
    let (before, running) = (node.systemd_files(), node.processes());
    let installed = node.rpm("--install", Some("1.0.0"));
    assert_eq!(installed.code, Some(0), "{installed}");
    node.assert_systemd_files(&before);
    assert_eq!(node.processes(), running);
    node.kilnd_output(&["enable", "--yes"]);
    assert!(node.machine.exists("/etc/systemd/system/kubelet.service.d"));
    let upgraded = node.rpm("--upgrade", Some("1.1.0"));
    assert_eq!((upgraded.code, node.dangling_links().as_str()), (Some(0), ""), "{upgraded}");
    assert!(node.machine.exists("/etc/systemd/system/kubelet.service.d/zz-renamed.conf"), "{upgraded}");
    assert_eq!(node.processes(), running);
    node.restart_services();
    assert!(node.own_configuration());
    node.assert_not_started();
    let running = node.processes();

    // A removal that cannot disable kilnd keeps the package: the gate would stay closed for ever.
    let units_of_image = "/usr/lib/systemd/system/kiln-config.service";
    node.machine.shell(&format!("touch {units_of_image}"));
    let refused = node.rpm("--erase", None);
    assert_ne!(refused.code, Some(0), "{refused}");
    assert!(node.machine.exists("/usr/bin/kilnd"));
    node.machine.shell(&format!("rm {units_of_image}"));

    let erased = node.rpm("--erase", None);
    assert_eq!(erased.code, Some(0), "{erased}");
    node.assert_systemd_files(&before);
    assert_eq!(node.processes(), running);
    assert!(!node.machine.exists("/usr/bin/kilnd") && !node.machine.exists("/usr/lib/kiln/units"));
    node.restart_services();
    assert!(node.own_configuration());
}

#[test]
fn enabled_node_keeps_running_over_upgrade_and_removal_of_the_rpm() {
    let mut node = Node::boot("rpm-enabled");
    let before = node.systemd_files();
    let installed = node.rpm("--install", Some("1.0.0"));
    assert_eq!(installed.code, Some(0), "{installed}");
    // Without effect, also after a reboot.
    node.machine.reboot();
    node.wait_for_services();
    node.assert_systemd_files(&before);
    node.assert_not_started();

    node.kilnd_output(&["enable", "--yes"]);
    node.machine.hardware("dmi/product_uuid", ONE);
    node.machine.hardware("cd/ovf-env.xml", ovf_env("node-1", Some(&max_pods(1, 30))));
    node.machine.reboot();
    Stage::wait_committed(&node.machine, 1);
    assert!(!node.own_configuration(), "the kubelet runs with kilnd's arguments");

    let running = node.processes();
    let watch = node.machine.property("kiln-watch.service", "MainPID");
    let upgraded = node.rpm("--upgrade", Some("1.1.0")).success();
    assert_eq!(node.processes(), running, "an upgrade restarts neither kubelet nor containerd: {upgraded}");
    assert_ne!(node.machine.property("kiln-watch.service", "MainPID"), watch, "kiln-watch runs the new program");
    assert_eq!(node.dangling_links(), "", "links of the old version are removed");
    node.restart_services();
    assert!(!node.own_configuration(), "the gate is open, and the drop-in of the new version is in effect");

    let running = node.processes();
    let erased = node.rpm("--erase", None).success();
    assert_eq!(node.processes(), running, "removal restarts neither kubelet nor containerd: {erased}");
    node.assert_systemd_files(&before);
    assert!(!node.machine.exists("/usr/bin/kilnd") && !node.machine.exists("/run/kiln/ready"));
    node.restart_services();
    assert!(node.own_configuration());
    node.machine.reboot();
    node.wait_for_services();
    assert!(node.own_configuration());
}
