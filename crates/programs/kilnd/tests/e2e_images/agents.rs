//! cloud-init and waagent next to kilnd, on an image that looks like Ubuntu's.

use serde_json::json;

use super::booted::cluster::TOKEN;
use super::booted::document::ovf_env_with_credential;
use super::kinds::Kind;
use super::node::{Node, TOKEN_FILE};

/// cloud-init's last unit is ordered after multi-user.target, which must not wait for a document.
#[test]
fn cloud_init_finishes_while_kilnd_waits_for_a_document() {
    let node = Node::new(Kind::Ubuntu, "waits");
    node.cloud.hang();
    let node = node.boot();
    node.machine.wait_until("cloud-init has finished", |machine| {
        machine.exists("/var/lib/cloud/instance/boot-finished").then_some(())
    });
    node.machine.wait_for("multi-user.target", "active");
    assert_eq!(node.machine.property("kiln-config.service", "ActiveState"), "activating", "kilnd still waits");
    assert_eq!(node.machine.property("kubelet.service", "ActiveState"), "inactive");
}

/// waagent copies the provisioning media to its folder, without the password, and ejects it. This is its own code on the image, except for
/// the drive, which a container does not have.
const COPY_MEDIA: &str = r#"
import shutil, sys
sys.argv = ["waagent"]
import azurelinuxagent.common.conf as conf
conf.load_conf_from_file("/etc/waagent.conf")
from azurelinuxagent.common.protocol.util import ProtocolUtil
class Drive:
    def mount_dvd(self): shutil.copy("/hardware/media/ovf-env.xml", conf.get_dvd_mount_point() + "/ovf-env.xml")
    def umount_dvd(self): pass
    def eject_dvd(self): pass
import os
os.makedirs(conf.get_dvd_mount_point(), exist_ok=True)
os.makedirs(conf.get_lib_dir(), mode=0o700, exist_ok=True)
util = ProtocolUtil()
util.osutil = Drive()
util.copy_ovf_env()
os.remove(conf.get_dvd_mount_point() + "/ovf-env.xml")
"#;

const COPY_UNIT: &str = "[Unit]
DefaultDependencies=no
After=kiln-identity.service systemd-remount-fs.service
Before=kiln-config.service
[Service]
Type=oneshot
ExecStart=/usr/bin/python3 /usr/local/sbin/copy-media
";

#[test]
fn document_is_found_in_the_copy_of_media_that_waagent_ejected() {
    let node = Node::new(Kind::Ubuntu, "ejected");
    let token = format!("{}.{}", TOKEN.0, TOKEN.1);
    let media = ovf_env_with_credential(&node.name, &node.document(1), &token);
    // waagent requires these elements.
    let account = "<wa:UserName>azureuser</wa:UserName><wa:HostName>";
    let agent = "<wa:ProvisionGuestAgent>true</wa:ProvisionGuestAgent><wa:PreprovisionedVm>";
    let media = media.replace("<wa:HostName>", account).replace("<wa:PreprovisionedVm>", agent);
    node.machine.hardware("media/ovf-env.xml", media);
    node.machine.write("/usr/local/sbin/copy-media", COPY_MEDIA.as_bytes(), 0o755);
    node.machine.write("/etc/systemd/system/copy-media.service", COPY_UNIT.as_bytes(), 0o644);
    let wants = "/etc/systemd/system/sysinit.target.wants/copy-media.service";
    node.machine.link(wants, "/etc/systemd/system/copy-media.service");
    let node = node.boot();
    node.assert_joined(1);
    let copy = node.machine.read("/var/lib/waagent/ovf-env.xml").unwrap_or_default();
    assert!(copy.contains("CustomData"), "waagent has made its copy: {copy}");
}

/// cloud-init's module for `/etc/hosts`, moved to its last stage: it then always writes after kilnd.
const OVERWRITE: &str = "datasource_list: [NoCloud]
network: {config: disabled}
manage_etc_hosts: true
cloud_final_modules: [update_etc_hosts, final-message]
";

#[test]
fn file_that_cloud_init_overwrites_is_restored_when_cloud_init_ends() {
    let node = Node::new(Kind::Ubuntu, "overwrites");
    node.machine.write("/etc/cloud/cloud.cfg.d/90-test.cfg", OVERWRITE.as_bytes(), 0o644);
    let hosts = "127.0.0.1 localhost kubernetes\n192.0.2.7 registry.example\n";
    let document = node.document(1).with("/spec/files", json!([{"path": "/etc/hosts", "content": hosts}]));
    node.cloud.set_user_data(&document.with("/spec/credentialFrom", json!({"kind": "file", "name": TOKEN_FILE})));
    let node = node.boot();
    node.machine
        .wait_until("cloud-init has finished", |machine| machine.exists("/run/cloud-init/result.json").then_some(()));
    node.machine.wait_until("the document's file is back", |machine| {
        (machine.read("/etc/hosts").as_deref() == Some(hosts)).then_some(())
    });
    node.wait_committed(1);
    // The module has run, or this test proves nothing.
    let log = node.machine.read("/var/log/cloud-init.log").unwrap_or_default();
    assert!(log.contains("modules:final") && log.contains("update_etc_hosts"), "{log}");
}
