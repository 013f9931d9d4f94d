//! containerd's configuration file, as the Node Bootstrapping Variables and `AKSNodeConfig` write it.

use std::fmt::Write as _;

use crate::toml::quote;

/// Layout of the file. containerd 2 renamed its sections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    One,
    Two,
}

/// Extracts `x.y.z` from the third word of the output of `containerd --version`.
pub fn parse_version(output: &str) -> Option<String> {
    let word = output.split_whitespace().nth(2)?;
    let word = word.strip_prefix('v').unwrap_or(word);
    let plain = word.split('-').next()?;
    let numbers = plain.split('.').collect::<Vec<_>>();
    let is_version =
        numbers.len() == 3 && numbers.iter().all(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
    is_version.then(|| plain.to_owned())
}

impl Layout {
    /// Returns the layout for a version of containerd, or layout 1 if the version is unknown.
    pub fn for_version(version: &str) -> Self {
        let major = version.trim_start_matches('v').split('.').next().and_then(|major| major.parse::<u32>().ok());
        if major.is_some_and(|major| major >= 2) { Self::Two } else { Self::One }
    }
}

/// Contents of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is one line of the file")]
pub struct Containerd {
    pub layout: Layout,
    pub oom_score: i32,
    /// Data directory, if not the default.
    pub root: String,
    pub sandbox_image: String,
    /// Container Device Interface.
    pub cdi: bool,
    /// Makes NVIDIA's runtime the default.
    pub nvidia: bool,
    pub systemd_cgroup: bool,
    /// Lets containerd write kubenet's network configuration.
    pub kubenet: bool,
    /// Reads one configuration file per registry from `/etc/containerd/certs.d`.
    pub registry_folder: bool,
    /// Artifact streaming.
    pub streaming: bool,
}

const CRI: &str = "plugins.\"io.containerd.grpc.v1.cri\"";
const IMAGES: &str = "plugins.\"io.containerd.cri.v1.images\"";
const RUNTIME: &str = "plugins.\"io.containerd.cri.v1.runtime\"";

impl Containerd {
    /// Renders the file.
    pub fn file(&self) -> String {
        let mut out = format!("version = 2\noom_score = {}\n", self.oom_score);
        if !self.root.is_empty() {
            let _ = writeln!(out, "root = {}", quote(&self.root));
        }
        match self.layout {
            Layout::One => self.layout_one(&mut out),
            Layout::Two => self.layout_two(&mut out),
        }
        out.push_str("[metrics]\n  address = \"0.0.0.0:10257\"\n");
        if self.streaming {
            out.push_str("[proxy_plugins]\n  [proxy_plugins.overlaybd]\n    type = \"snapshot\"\n");
            out.push_str("    address = \"/run/overlaybd-snapshotter/overlaybd.sock\"\n");
        }
        out
    }

    fn layout_one(&self, out: &mut String) {
        let _ = writeln!(out, "[{CRI}]\n  sandbox_image = {}", quote(&self.sandbox_image));
        if self.cdi {
            out.push_str("  enable_cdi = true\n");
        }
        let _ = writeln!(out, "  [{CRI}.containerd]");
        self.snapshotter(out);
        self.runtimes(out, CRI);
        self.cni(out, CRI);
        self.registry(out, CRI);
    }

    fn layout_two(&self, out: &mut String) {
        let _ = writeln!(out, "[{IMAGES}]");
        if self.streaming {
            out.push_str("  snapshotter = \"overlaybd\"\n  disable_snapshot_annotations = false\n");
        }
        let _ = writeln!(out, "  [{IMAGES}.pinned_images]\n    sandbox = {}", quote(&self.sandbox_image));
        self.registry(out, IMAGES);
        let _ = writeln!(out, "[{RUNTIME}.containerd]");
        self.runtimes(out, RUNTIME);
        self.cni(out, RUNTIME);
    }

    fn snapshotter(&self, out: &mut String) {
        if self.streaming {
            out.push_str("    snapshotter = \"overlaybd\"\n    disable_snapshot_annotations = false\n");
        }
    }

    fn runtimes(&self, out: &mut String, plugin: &str) {
        let name = if self.nvidia { "nvidia-container-runtime" } else { "runc" };
        let _ = writeln!(out, "    default_runtime_name = \"{name}\"");
        for (runtime, systemd_cgroup) in [(name, self.systemd_cgroup), ("untrusted", false)] {
            let _ = writeln!(
                out,
                "    [{plugin}.containerd.runtimes.{runtime}]\n      runtime_type = \"io.containerd.runc.v2\""
            );
            let _ = writeln!(
                out,
                "    [{plugin}.containerd.runtimes.{runtime}.options]\n      BinaryName = \"/usr/bin/{name}\""
            );
            if systemd_cgroup {
                out.push_str("      SystemdCgroup = true\n");
            }
        }
    }

    fn cni(&self, out: &mut String, plugin: &str) {
        if self.kubenet {
            let _ =
                writeln!(out, "  [{plugin}.cni]\n    bin_dir = \"/opt/cni/bin\"\n    conf_dir = \"/etc/cni/net.d\"");
            out.push_str("    conf_template = \"/etc/containerd/kubenet_template.conf\"\n");
        }
    }

    fn registry(&self, out: &mut String, plugin: &str) {
        if self.registry_folder {
            let _ = writeln!(out, "  [{plugin}.registry]\n    config_path = \"/etc/containerd/certs.d\"");
        }
        let _ = writeln!(out, "  [{plugin}.registry.headers]\n    X-Meta-Source-Client = [\"azure/aks\"]");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(layout: Layout) -> Containerd {
        Containerd {
            layout,
            oom_score: -999,
            root: String::new(),
            sandbox_image: "pause:3.6".to_owned(),
            cdi: false,
            nvidia: false,
            systemd_cgroup: true,
            kubenet: false,
            registry_folder: true,
            streaming: false,
        }
    }

    #[test]
    fn layout_follows_the_major_version() {
        assert_eq!(Layout::for_version("2.0.0"), Layout::Two);
        assert_eq!(Layout::for_version("10.1.0"), Layout::Two);
        assert_eq!(Layout::for_version("1.7.22"), Layout::One);
        assert_eq!(Layout::for_version(""), Layout::One);
    }

    #[test]
    fn version_is_parsed_from_containerd_output() {
        assert_eq!(parse_version("containerd containerd.io 1.7.22-1 c814c75").as_deref(), Some("1.7.22"));
        assert_eq!(
            parse_version("containerd github.com/containerd/containerd/v2 v2.0.0-rc.2 abc").as_deref(),
            Some("2.0.0")
        );
        assert_eq!(parse_version("not a valid output"), None);
    }

    #[test]
    fn only_the_default_runtime_uses_systemd_cgroups() {
        for layout in [Layout::One, Layout::Two] {
            let file = Containerd { nvidia: true, ..plain(layout) }.file();
            assert_eq!(file.matches("SystemdCgroup = true").count(), 1);
            assert_eq!(file.matches("/usr/bin/nvidia-container-runtime").count(), 2);
        }
    }

    #[test]
    fn quotes_in_values_are_escaped() {
        let file = Containerd { root: "/a\"\nversion = 3".to_owned(), ..plain(Layout::One) }.file();
        assert!(file.contains("root = \"/a\\\"\\nversion = 3\"\n"));
    }
}
