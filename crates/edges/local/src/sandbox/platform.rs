//! The platform that a machine sees: firmware, provisioning media, and for a container the units that make kilnd look for them elsewhere.
//!
//! Everything is mounted below the machine's `/run`, so that a snapshot of its disk has no trace of the sandbox.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kiln_machines::qemu::AZURE_ASSET_TAG;

use super::SandboxError;
use crate::MachineConfig;

/// The folder of the platform in a machine.
const PLATFORM: &str = "/run/kiln-local";

/// The kernel settings that kubelet changes when it starts. The kernel is the host's, so a container gets files in their place, writable and
/// without effect.
const SETTINGS: [&str; 6] = [
    "/proc/sys/kernel/keys/root_maxbytes",
    "/proc/sys/kernel/keys/root_maxkeys",
    "/proc/sys/kernel/panic",
    "/proc/sys/kernel/panic_on_oops",
    "/proc/sys/vm/overcommit_memory",
    "/proc/sys/vm/panic_on_oom",
];

/// The `ovf-env.xml` of the provisioning media.
fn ovf_env(config: &MachineConfig) -> String {
    let data = config.custom_data.as_ref().map(|data| STANDARD.encode(data.expose()));
    let data = data.map(|data| format!("<wa:CustomData>{data}</wa:CustomData>")).unwrap_or_default();
    format!(
        "<ovf:Environment xmlns:ovf=\"http://schemas.dmtf.org/ovf/environment/1\" \
         xmlns:wa=\"http://schemas.microsoft.com/windowsazure\"><wa:ProvisioningSection><wa:Version>1.0</wa:Version>\
         <wa:LinuxProvisioningConfigurationSet><wa:HostName>{}</wa:HostName>{data}\
         </wa:LinuxProvisioningConfigurationSet></wa:ProvisioningSection><wa:PlatformSettingsSection><wa:PlatformSettings>\
         <wa:PreprovisionedVm>false</wa:PreprovisionedVm></wa:PlatformSettings></wa:PlatformSettingsSection></ovf:Environment>",
        config.computer_name
    )
}

/// The units that only a container needs, with their paths below `/run/systemd/system`.
fn units() -> Vec<(String, String)> {
    let mut prepare = String::from(
        "[Unit]\nDescription=Kernel settings and control groups for a container\nDefaultDependencies=no\n\
         Before=kiln-identity.service kiln-config.service sysinit.target\n[Service]\nType=oneshot\nRemainAfterExit=yes\n",
    );
    let mut line = |command: &str| prepare.extend(["ExecStart=/bin/sh -ec '", command, "'\n"]);
    for path in SETTINGS {
        line(&format!(
            "test -e {path} || exit 0; copy=/run/kiln-local-settings/$$(echo {path} | tr / _); \
             mkdir -p /run/kiln-local-settings; cat {path} >$$copy; mount --bind $$copy {path}"
        ));
    }
    // A container runtime creates groups in every hierarchy.
    line(
        "for group in /sys/fs/cgroup/ /sys/fs/cgroup/*/; do mount -o remount,bind,rw $$group 2>/dev/null || true; done",
    );
    let mut all = vec![
        ("kiln-local.service".to_owned(), prepare),
        ("sysinit.target.d/50-kiln-local.conf".to_owned(), "[Unit]\nWants=kiln-local.service\n".to_owned()),
    ];
    for (unit, verb) in [("identity", "identity"), ("config", "boot"), ("watch", "watch")] {
        let line =
            format!("[Service]\nExecStart=\nExecStart=/usr/bin/kilnd {verb} --dmi {PLATFORM}/dmi --cd {PLATFORM}/cd\n");
        all.push((format!("kiln-{unit}.service.d/50-kiln-local.conf"), line));
    }
    all
}

/// Writes the platform into the machine's folder of the sandbox, and returns the `--bind-ro` arguments of systemd-nspawn.
pub(crate) fn prepare(folder: &Path, config: &MachineConfig) -> Result<Vec<String>, SandboxError> {
    let hardware = folder.join("hardware");
    write(&hardware.join("dmi/product_uuid"), &format!("{}\n", config.vm_id))?;
    write(&hardware.join("dmi/chassis_asset_tag"), &format!("{AZURE_ASSET_TAG}\n"))?;
    write(&hardware.join("cd/ovf-env.xml"), &ovf_env(config))?;
    let mut mounts = vec![format!("--bind-ro={}:{PLATFORM}", hardware.display())];
    for (name, text) in units() {
        let path = folder.join("units").join(&name);
        write(&path, &text)?;
        mounts.push(format!("--bind-ro={}:/run/systemd/system/{name}", path.display()));
    }
    Ok(mounts)
}

/// Writes a file that only root may read: the provisioning media may contain secrets.
fn write(path: &Path, text: &str) -> Result<(), SandboxError> {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder).map_err(SandboxError::file(folder))?;
    let mut options = fs::OpenOptions::new();
    let file = options.write(true).create(true).truncate(true).mode(0o600).open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes())).map_err(SandboxError::file(path))
}

#[cfg(test)]
mod tests {
    use kiln_types::Secret;

    use super::*;
    use crate::{DiskPath, MachineKind};

    #[test]
    fn custom_data_is_only_on_the_provisioning_media_and_encoded() {
        let folder = tempfile::tempdir().unwrap();
        let config = MachineConfig {
            name: "pool_3".parse().unwrap(),
            computer_name: "pool000003".to_owned(),
            vm_id: "16a52d90-3c5f-4a3e-8b57-7f2b4c6d8e90".to_owned(),
            kind: MachineKind::Nspawn,
            disk: DiskPath::Qcow2("/nowhere".into()),
            number: 3,
            custom_data: Some(Secret::new("hunter2")),
            cores: 1,
            memory_mib: 512,
        };
        let mounts = prepare(folder.path(), &config).unwrap();
        let encoded = STANDARD.encode("hunter2");
        let media = fs::read_to_string(folder.path().join("hardware/cd/ovf-env.xml")).unwrap();
        assert!(media.contains(&format!("<wa:CustomData>{encoded}</wa:CustomData>")), "{media}");
        assert!(media.contains("<wa:HostName>pool000003</wa:HostName>"));
        assert!(mounts.iter().all(|mount| !mount.contains(&encoded) && !mount.contains("hunter2")));
        let id = fs::read_to_string(folder.path().join("hardware/dmi/product_uuid")).unwrap();
        assert_eq!(id.trim(), config.vm_id);
        let without = ovf_env(&MachineConfig { custom_data: None, ..config });
        assert!(!without.contains("CustomData"));
    }
}
