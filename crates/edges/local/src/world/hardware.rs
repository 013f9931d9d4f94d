//! What a machine sees of its host: firmware, the provisioning medium, and where a container has to be told to look for them.
//!
//! All of it is mounted into the machine's `/run`, so that no trace of the world is on a disk that is captured.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::WorldError;
use crate::Body;

/// Where a machine finds it.
const PLACE: &str = "/run/kiln-local";

/// What a kubelet writes to the kernel's settings at its start. The kernel is the host's: a machine has files of its own there, writable
/// and without effect.
const SETTINGS: [&str; 6] = [
    "/proc/sys/kernel/keys/root_maxbytes",
    "/proc/sys/kernel/keys/root_maxkeys",
    "/proc/sys/kernel/panic",
    "/proc/sys/kernel/panic_on_oops",
    "/proc/sys/vm/overcommit_memory",
    "/proc/sys/vm/panic_on_oom",
];

/// The content of the provisioning medium.
pub(crate) fn medium(body: &Body) -> String {
    let data = body.custom_data.as_ref().map(|data| STANDARD.encode(data.expose()));
    let data = data.map(|data| format!("<wa:CustomData>{data}</wa:CustomData>")).unwrap_or_default();
    format!(
        "<ovf:Environment xmlns:ovf=\"http://schemas.dmtf.org/ovf/environment/1\" \
         xmlns:wa=\"http://schemas.microsoft.com/windowsazure\"><wa:ProvisioningSection><wa:Version>1.0</wa:Version>\
         <wa:LinuxProvisioningConfigurationSet><wa:HostName>{}</wa:HostName>{data}\
         </wa:LinuxProvisioningConfigurationSet></wa:ProvisioningSection><wa:PlatformSettingsSection><wa:PlatformSettings>\
         <wa:PreprovisionedVm>false</wa:PreprovisionedVm></wa:PlatformSettings></wa:PlatformSettingsSection></ovf:Environment>",
        body.computer_name
    )
}

/// Units that only a container needs, each a path below `/run/systemd/system`.
fn units() -> Vec<(String, String)> {
    let mut prepare = String::from(
        "[Unit]\nDescription=What a container lacks of a machine\nDefaultDependencies=no\n\
         Before=kiln-identity.service kiln-config.service sysinit.target\n[Service]\nType=oneshot\nRemainAfterExit=yes\n",
    );
    let mut line = |command: &str| prepare.extend(["ExecStart=/bin/sh -ec '", command, "'\n"]);
    for path in SETTINGS {
        line(&format!(
            "test -e {path} || exit 0; copy=/run/kiln-local-settings/$$(echo {path} | tr / _); \
             mkdir -p /run/kiln-local-settings; cat {path} >$$copy; mount --bind $$copy {path}"
        ));
    }
    // A container runtime makes groups in every hierarchy.
    line(
        "for group in /sys/fs/cgroup/ /sys/fs/cgroup/*/; do mount -o remount,bind,rw $$group 2>/dev/null || true; done",
    );
    let mut all = vec![
        ("kiln-local.service".to_owned(), prepare),
        ("sysinit.target.d/50-kiln-local.conf".to_owned(), "[Unit]\nWants=kiln-local.service\n".to_owned()),
    ];
    for (unit, verb) in [("identity", "identity"), ("config", "boot"), ("watch", "watch")] {
        let line =
            format!("[Service]\nExecStart=\nExecStart=/usr/bin/kilnd {verb} --dmi {PLACE}/dmi --cd {PLACE}/cd\n");
        all.push((format!("kiln-{unit}.service.d/50-kiln-local.conf"), line));
    }
    all
}

/// Writes it into the machine's folder of the world, and says what systemd-nspawn is to mount where.
pub(crate) fn prepare(folder: &Path, body: &Body) -> Result<Vec<String>, WorldError> {
    let hardware = folder.join("hardware");
    write(&hardware.join("dmi/product_uuid"), &format!("{}\n", body.vm_id))?;
    write(&hardware.join("dmi/chassis_asset_tag"), "7783-7084-3265-9085-8269-3286-77\n")?;
    write(&hardware.join("cd/ovf-env.xml"), &medium(body))?;
    let mut mounts = vec![format!("--bind-ro={}:{PLACE}", hardware.display())];
    for (name, text) in units() {
        let path = folder.join("units").join(&name);
        write(&path, &text)?;
        mounts.push(format!("--bind-ro={}:/run/systemd/system/{name}", path.display()));
    }
    Ok(mounts)
}

/// The medium may hold secrets, so nobody but root reads any of it.
fn write(path: &Path, text: &str) -> Result<(), WorldError> {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder).map_err(WorldError::file(folder))?;
    let mut options = fs::OpenOptions::new();
    let file = options.write(true).create(true).truncate(true).mode(0o600).open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes())).map_err(WorldError::file(path))
}

#[cfg(test)]
mod tests {
    use kiln_types::Secret;

    use super::*;
    use crate::{DiskPath, Kind};

    #[test]
    fn custom_data_is_on_the_medium_encoded_and_in_no_other_file_nor_argument() {
        let folder = tempfile::tempdir().unwrap();
        let body = Body {
            name: "pool_3".parse().unwrap(),
            computer_name: "pool000003".to_owned(),
            vm_id: "16a52d90-3c5f-4a3e-8b57-7f2b4c6d8e90".to_owned(),
            kind: Kind::Nspawn,
            disk: DiskPath::Qcow2("/nowhere".into()),
            number: 3,
            custom_data: Some(Secret::new("hunter2")),
            cores: 1,
            memory_mib: 512,
        };
        let mounts = prepare(folder.path(), &body).unwrap();
        let encoded = STANDARD.encode("hunter2");
        let medium = fs::read_to_string(folder.path().join("hardware/cd/ovf-env.xml")).unwrap();
        assert!(medium.contains(&format!("<wa:CustomData>{encoded}</wa:CustomData>")), "{medium}");
        assert!(medium.contains("<wa:HostName>pool000003</wa:HostName>"));
        assert!(mounts.iter().all(|mount| !mount.contains(&encoded) && !mount.contains("hunter2")));
        let id = fs::read_to_string(folder.path().join("hardware/dmi/product_uuid")).unwrap();
        assert_eq!(id.trim(), body.vm_id);
        let without = medium_of(&Body { custom_data: None, ..body });
        assert!(!without.contains("CustomData"));
    }

    fn medium_of(body: &Body) -> String {
        medium(body)
    }
}
