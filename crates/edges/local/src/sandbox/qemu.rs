//! Virtual machines of a sandbox.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use kiln_machines::command::command_line;
use kiln_machines::qemu::{self, AZURE_ASSET_TAG, Accelerator, Disk, Network, VirtualMachine};
use kiln_machines::tools::{self, Needed};
use serde_json::Value;

use super::record::run_folder;
use super::{Sandbox, SandboxError, address, platform};
use crate::MachineConfig;

pub(super) const START: &str = include_str!("start-qemu.sh");

/// The programs that come from this system even if QEMU does not.
const NEEDED_HERE: [Needed; 1] = [("timeout", "coreutils")];

/// The arguments of a kernel that is not on the disk. Debian's cloud kernel has `NVMe` and ext4 built in and needs no initrd. As in a cloud,
/// the first network card is `eth0`, and a kernel panic restarts the machine.
const KERNEL: &str = "console=ttyS0 root=/dev/nvme0n1 rw mitigations=off net.ifnames=0 panic=1";

/// The time a kernel has to reach its search for a root file system. A processor needs one second; nested virtualisation without hardware
/// support has taken minutes for the first lines.
const PROBE_SECONDS: u32 = 15;

/// The drive with the machine's disk.
pub(super) const ROOT_DRIVE: &str = "root";

/// The last words of a kernel without a root file system.
const NO_ROOT: &str = "Unable to mount root";

impl Sandbox {
    /// The command that starts a virtual machine in a new session.
    pub(super) fn qemu(&self, config: &MachineConfig, folder: &Path, disk: &Path) -> Result<Command, SandboxError> {
        let tools = self.qemu_root();
        tools::require(tools, &qemu::NEEDED)?;
        tools::require(None, &NEEDED_HERE)?;
        platform::prepare(folder, config)?;
        let (media, monitor) = (folder.join("media.iso"), monitor(folder));
        qemu::make_iso(tools, &media, &folder.join("hardware/cd"))?;
        let kernel = self.kernel(disk)?;
        let has_kvm = kernel.as_deref().map_or(Ok(false), |kernel| self.can_use_kvm(kernel))?;
        let (device, hardware_address) = (port(config), address::hardware_address(config.number));
        let machine = VirtualMachine {
            cores: config.cores,
            memory_mib: config.memory_mib,
            vm_id: Some(&config.vm_id),
            asset_tag: Some(AZURE_ASSET_TAG),
            disks: vec![
                Disk { id: ROOT_DRIVE, file: disk, format: "qcow2", log: None },
                Disk { id: "media", file: &media, format: "raw", log: None },
            ],
            network: Network::Tap { device: &device, hardware_address: &hardware_address },
            kernel: kernel.as_deref().map(|kernel| (kernel, KERNEL)),
            monitor: Some(&monitor),
            may_reboot: true,
            ..VirtualMachine::new(tools, if has_kvm { Accelerator::Kvm } else { Accelerator::Emulation })
        };
        let mut command = self.detached(config, folder)?;
        command.args(["sh", "-c", START, "qemu"]);
        machine.append_to(&mut command);
        Ok(command)
    }

    /// The kernel next to the lowest file of a disk, `FILE.vmlinuz`. A disk without one starts with its own boot loader.
    fn kernel(&self, disk: &Path) -> Result<Option<PathBuf>, SandboxError> {
        let mut command = tools::command(self.qemu_root(), "qemu-img");
        command.args(["info", "--force-share", "--backing-chain", "--output=json"]).arg(disk);
        let output = command.stdin(Stdio::null()).output().map_err(SandboxError::spawn("qemu-img"))?;
        if !output.status.success() {
            let (line, status) = (command_line(&command), output.status.to_string());
            let output = String::from_utf8_lossy(&output.stderr).trim().to_owned();
            return Err(kiln_machines::Error::Failed { line, status, output }.into());
        }
        let chain: Value = serde_json::from_slice(&output.stdout)
            .map_err(|source| SandboxError::Record { path: disk.to_owned(), source })?;
        let lowest = chain.as_array().and_then(|all| all.last()).and_then(|file| file["filename"].as_str());
        let kernel = lowest.map(|file| PathBuf::from(format!("{file}.vmlinuz")));
        Ok(kernel.filter(|kernel| kernel.exists()))
    }

    /// Whether the host's processor can run a kernel. `/dev/kvm` may exist and still take minutes for a second's work, so once per sandbox a
    /// kernel is started without a root file system. It must report that in time.
    fn can_use_kvm(&self, kernel: &Path) -> Result<bool, SandboxError> {
        let known = run_folder(self.state()).join("kvm");
        if let Ok(answer) = fs::read_to_string(&known) {
            return Ok(answer == "yes");
        }
        let mut machine = VirtualMachine::new(self.qemu_root(), Accelerator::Kvm);
        machine.kernel = Some((kernel, "console=ttyS0 panic=-1"));
        let works = Path::new("/dev/kvm").exists() && {
            let mut command = qemu::deadline(&PROBE_SECONDS.to_string());
            machine.append_to(&mut command);
            reports_missing_root(&mut command)
        };
        fs::write(&known, if works { "yes" } else { "no" }).map_err(SandboxError::file(&known))?;
        Ok(works)
    }
}

fn reports_missing_root(command: &mut Command) -> bool {
    qemu::run_to_end(command).is_ok_and(|ended| ended.console.contains(NO_ROOT))
}

/// The name of a machine's network device on the bridge.
pub(super) fn port(config: &MachineConfig) -> String {
    format!("m{}", config.number)
}

/// The monitor socket of a virtual machine. Only virtual machines have one.
pub(super) fn monitor(folder: &Path) -> PathBuf {
    folder.join("monitor")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kvm_is_used_only_if_a_kernel_ran_on_it_in_time() {
        let words = format!("echo 'Kernel panic - not syncing: VFS: {NO_ROOT} fs on unknown-block(0,0)'");
        let probe =
            |seconds: &str, lines: &str| reports_missing_root(qemu::deadline(seconds).args(["sh", "-c", lines]));
        assert!(probe("60", &words));
        assert!(!probe("60", "echo 'Could not access KVM kernel module' >&2; exit 1"), "it failed");
        assert!(!probe("60", "echo 'Linux version 6.1.0'"), "it did not reach its search for a root");
        assert!(!probe("0.2", &format!("echo early; sleep 60; {words}")), "it took too long");
        assert!(!reports_missing_root(qemu::deadline("60").arg("/nowhere/qemu-system-x86_64")), "it does not exist");
    }
}
