//! The kinds of images. Every kind has a real kubelet and containerd, and the files of kilnd's package.

use test_deps::TestDep;
use testkit::nspawn::{Blueprint, Machine};

use super::booted::cluster::with_kubelet;
use super::booted::stage::Stage;
use super::units;

/// The name of the machines' network link.
pub(crate) const LINK: &str = "eth0";

/// The folders of unit files: of packages, and of the administrator.
const USR: &str = "/usr/lib/systemd/system";
const ETC: &str = "/etc/systemd/system";

/// A kind of image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// cloud-init, waagent, netplan, systemd-resolved and unattended-upgrades.
    Ubuntu,
    /// The kubelet's unit and drop-in of the Kubernetes packages.
    Kubeadm,
    /// The units of an AKS node image, before AKS's own script has run.
    Aks,
    /// An rpm database, systemd-networkd with cloud-init's files, and SELinux labels.
    AzureLinux,
}

/// cloud-init as on Azure, except for the datasource: the one for Azure needs a DVD drive. The instance id is the VM id, and the host name
/// is the VM's, as on Azure.
const SEED: &str = "#!/bin/sh
set -eu
mkdir -p -m 700 /run/seed
printf '#cloud-config\\n' >/run/seed/user-data
printf 'instance-id: %s\\nlocal-hostname: %s\\n' \"$(cat /hardware/dmi/product_uuid)\" \"$(cat /hardware/host-name)\" >/run/seed/meta-data
";

const SEED_UNIT: &str = "[Unit]
DefaultDependencies=no
After=systemd-remount-fs.service kiln-identity.service
Before=cloud-init-local.service
[Service]
Type=oneshot
ExecStart=/usr/local/sbin/seed
";

/// Writes the file that cloud-init writes at the first boot of a machine on Azure Linux. The datasource `NoCloud` has no network for a container.
const NETWORK_SEED: &str = "
file=/etc/systemd/network/10-cloud-init-eth0.network
address=$(cat /sys/class/net/eth0/address)
test -e $file || printf '[Match]\\nName=eth0\\nMACAddress=%s\\n\\n[Network]\\nAddress=10.0.0.4/24\\nIPv6AcceptRA=no\\n' $address >$file
";

/// waagent runs on Hyper-V only. Everything else of its unit stays.
const ANY_HYPERVISOR: &str = "[Unit]\nConditionVirtualization=\n";

impl Kind {
    /// The name in machine names.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Ubuntu => "ubuntu",
            Self::Kubeadm => "kubeadm",
            Self::Aks => "aks",
            Self::AzureLinux => "azl",
        }
    }

    /// The language of the guide's `console` blocks about this kind.
    pub(crate) fn section(self) -> &'static str {
        match self {
            Self::Ubuntu => "ubuntu-like",
            Self::Kubeadm => "kubeadm-like",
            Self::Aks => "aks-like",
            Self::AzureLinux => "azure-linux-like",
        }
    }

    /// A machine of this kind.
    pub(crate) fn blueprint(self, name: &str) -> Blueprint {
        match self {
            Self::Ubuntu => ubuntu_like(name),
            Self::Kubeadm => kubeadm_like(name),
            Self::Aks => aks_like(name),
            Self::AzureLinux => azure_linux_like(name),
        }
    }

    /// Services of the image that run on a healthy node.
    pub(crate) fn services(self) -> &'static [&'static str] {
        match self {
            Self::Ubuntu => &[
                "cloud-final.service",
                "systemd-networkd.service",
                "systemd-resolved.service",
                "unattended-upgrades.service",
                "walinuxagent.service",
            ],
            Self::Kubeadm | Self::Aks => &["network-online.target"],
            Self::AzureLinux => &["cloud-final.service", "systemd-networkd.service", "walinuxagent.service"],
        }
    }

    /// The kubelet that the image's own unit runs.
    pub(crate) fn kubelet(self) -> &'static str {
        match self {
            Self::Aks => "/opt/bin/kubelet",
            Self::Ubuntu | Self::Kubeadm | Self::AzureLinux => "/usr/bin/kubelet",
        }
    }

    /// The resolver configuration for pods, if it is not the kubelet's default.
    pub(crate) fn resolv_conf(self) -> Option<&'static str> {
        (self == Self::Ubuntu).then_some("/run/systemd/resolve/resolv.conf")
    }

    /// Adds the files that the image builder left on the disk.
    #[track_caller]
    pub(crate) fn prepare(self, machine: &Machine) {
        match self {
            Self::Ubuntu => machine.write("/etc/netplan/50-cloud-init.yaml", NETPLAN.as_bytes(), 0o600),
            Self::Kubeadm | Self::Aks => {}
            Self::AzureLinux => {
                // One family has rpm, the other dpkg. kilnd reads the database, and never runs rpm.
                machine.shell("rm -rf /var/lib/dpkg /etc/netplan; rpm --initdb");
            }
        }
    }
}

/// As cloud-init writes it on Azure, with an address in place of DHCP, and without the MAC address: netplan compares it with the permanent one,
/// which the link of a container does not have. systemd-networkd would wait 12 s for a router, which does not exist here.
const NETPLAN: &str = "network:
    ethernets:
        eth0:
            addresses: [10.0.0.4/24]
            accept-ra: false
    version: 2
";

/// The parts that images of Azure have in common: cloud-init and waagent.
fn with_agents(name: &str) -> Blueprint {
    with_kubelet(Stage::packaged(name), "/usr/bin/kubelet")
        .root(TestDep::ImageRoot)
        .file(&format!("{USR}/kubelet.service"), units::KUBEADM_KUBELET)
        .link(&format!("{ETC}/multi-user.target.wants/kubelet.service"), &format!("{USR}/kubelet.service"))
        .link(&format!("{ETC}/multi-user.target.wants/containerd.service"), &format!("{USR}/containerd.service"))
        .executable("/usr/local/sbin/seed", SEED)
        .file(&format!("{USR}/seed.service"), SEED_UNIT)
        .link(&format!("{USR}/sysinit.target.wants/seed.service"), "../seed.service")
        .link("/var/lib/cloud/seed/nocloud", "/run/seed")
        .file("/etc/cloud/cloud.cfg.d/90-test.cfg", "datasource_list: [NoCloud]\nnetwork: {config: disabled}\n")
        .file(&format!("{ETC}/walinuxagent.service.d/test.conf"), ANY_HYPERVISOR)
}

fn ubuntu_like(name: &str) -> Blueprint {
    with_agents(name)
        .link("/etc/resolv.conf", "../run/systemd/resolve/stub-resolv.conf")
        .file("/etc/apt/apt.conf.d/20auto-upgrades", "APT::Periodic::Unattended-Upgrade \"1\";\n")
        .link(&format!("{ETC}/timers.target.wants/apt-daily-upgrade.timer"), &format!("{USR}/apt-daily-upgrade.timer"))
}

fn kubeadm_like(name: &str) -> Blueprint {
    with_kubelet(Stage::packaged(name), "/usr/bin/kubelet")
        .file(&format!("{USR}/kubelet.service"), units::KUBEADM_KUBELET)
        .file(&format!("{USR}/kubelet.service.d/10-kubeadm.conf"), units::KUBEADM_DROP_IN)
        .link(&format!("{ETC}/multi-user.target.wants/kubelet.service"), &format!("{USR}/kubelet.service"))
        .link(&format!("{ETC}/multi-user.target.wants/containerd.service"), &format!("{USR}/containerd.service"))
}

fn aks_like(name: &str) -> Blueprint {
    // AKS images have several kubelets, and CSE moves one of them to `/opt/bin`.
    with_kubelet(Stage::packaged(name), "/opt/kubelets/1.34.4/kubelet")
        .file(&format!("{ETC}/kubelet.service"), units::AKS_KUBELET)
        .file(&format!("{ETC}/kubelet.service.d/10-tlsbootstrap.conf"), units::AKS_TLS_BOOTSTRAP)
        .file(&format!("{ETC}/containerd.service"), units::AKS_CONTAINERD)
        .file(&format!("{ETC}/containerd.service.d/exec_start.conf"), units::AKS_CONTAINERD_DROP_IN)
        .wanted_by("multi-user.target", "kubelet.service")
        .wanted_by("multi-user.target", "containerd.service")
}

fn azure_linux_like(name: &str) -> Blueprint {
    let release = "NAME=\"Microsoft Azure Linux\"\nID=azurelinux\nVERSION_ID=\"3.0\"\n";
    with_agents(name)
        .file("/usr/lib/os-release", release)
        .executable("/usr/local/sbin/seed", format!("{SEED}{NETWORK_SEED}"))
        .file("/etc/rpm/macros", "%_dbpath /var/lib/rpm\n")
        .file("/etc/selinux/config", "SELINUX=enforcing\nSELINUXTYPE=default\n")
        .link(
            &format!("{ETC}/multi-user.target.wants/systemd-networkd.service"),
            &format!("{USR}/systemd-networkd.service"),
        )
        .link(
            &format!("{ETC}/network-online.target.wants/systemd-networkd-wait-online.service"),
            &format!("{USR}/systemd-networkd-wait-online.service"),
        )
}
