//! containerd's configuration file, as the two contracts write it.

use std::fmt::Write as _;

/// The layout of the file: its sections moved with containerd 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// containerd 1.
    One,
    /// containerd 2.
    Two,
}

/// The x.y.z in what `containerd --version` prints, where its third word starts with a number.
pub fn version_in(output: &str) -> Option<String> {
    let word = output.split_whitespace().nth(2)?;
    let word = word.strip_prefix('v').unwrap_or(word);
    let plain = word.split('-').next()?;
    let numbers = plain.split('.').collect::<Vec<_>>();
    let is_version =
        numbers.len() == 3 && numbers.iter().all(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()));
    is_version.then(|| plain.to_owned())
}

impl Layout {
    /// The layout for a version; 1 where the version is not known.
    pub fn of_version(version: &str) -> Self {
        let major = version.trim_start_matches('v').split('.').next().and_then(|major| major.parse::<u32>().ok());
        if major.is_some_and(|major| major >= 2) { Self::Two } else { Self::One }
    }
}

/// What the file says.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each is one line of the file")]
pub struct Containerd {
    pub layout: Layout,
    /// How ready the kernel is to kill containerd.
    pub oom_score: i32,
    /// Where images and containers live, if not in the usual place.
    pub root: String,
    /// The image of the pause container.
    pub sandbox_image: String,
    /// Whether devices may be described by files.
    pub cdi: bool,
    /// Whether containers run with NVIDIA's runtime.
    pub nvidia: bool,
    /// Whether systemd owns the control groups.
    pub systemd_cgroup: bool,
    /// Whether containerd writes kubenet's network configuration.
    pub kubenet: bool,
    /// Whether registries have files of their own.
    pub registry_folder: bool,
    /// Whether images are streamed.
    pub streaming: bool,
}

const CRI: &str = "plugins.\"io.containerd.grpc.v1.cri\"";
const IMAGES: &str = "plugins.\"io.containerd.cri.v1.images\"";
const RUNTIME: &str = "plugins.\"io.containerd.cri.v1.runtime\"";

impl Containerd {
    /// The file.
    pub fn file(&self) -> String {
        let mut out = format!("version = 2\noom_score = {}\n", self.oom_score);
        if !self.root.is_empty() {
            let _ = writeln!(out, "root = {}", toml_text(&self.root));
        }
        match self.layout {
            Layout::One => self.one(&mut out),
            Layout::Two => self.two(&mut out),
        }
        out.push_str("[metrics]\n  address = \"0.0.0.0:10257\"\n");
        if self.streaming {
            out.push_str("[proxy_plugins]\n  [proxy_plugins.overlaybd]\n    type = \"snapshot\"\n");
            out.push_str("    address = \"/run/overlaybd-snapshotter/overlaybd.sock\"\n");
        }
        out
    }

    fn one(&self, out: &mut String) {
        let _ = writeln!(out, "[{CRI}]\n  sandbox_image = {}", toml_text(&self.sandbox_image));
        if self.cdi {
            out.push_str("  enable_cdi = true\n");
        }
        let _ = writeln!(out, "  [{CRI}.containerd]");
        self.snapshotter(out);
        self.runtimes(out, CRI);
        self.cni(out, CRI);
        self.registry(out, CRI);
    }

    fn two(&self, out: &mut String) {
        let _ = writeln!(out, "[{IMAGES}]");
        if self.streaming {
            out.push_str("  snapshotter = \"overlaybd\"\n  disable_snapshot_annotations = false\n");
        }
        let _ = writeln!(out, "  [{IMAGES}.pinned_images]\n    sandbox = {}", toml_text(&self.sandbox_image));
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
        for (runtime, owns_groups) in [(name, self.systemd_cgroup), ("untrusted", false)] {
            let _ = writeln!(
                out,
                "    [{plugin}.containerd.runtimes.{runtime}]\n      runtime_type = \"io.containerd.runc.v2\""
            );
            let _ = writeln!(
                out,
                "    [{plugin}.containerd.runtimes.{runtime}.options]\n      BinaryName = \"/usr/bin/{name}\""
            );
            if owns_groups {
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

/// A TOML basic string.
fn toml_text(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04X}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
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
    fn the_layout_follows_the_major_version() {
        assert_eq!(Layout::of_version("2.0.0"), Layout::Two);
        assert_eq!(Layout::of_version("10.1.0"), Layout::Two);
        assert_eq!(Layout::of_version("1.7.22"), Layout::One);
        assert_eq!(Layout::of_version(""), Layout::One);
    }

    #[test]
    fn a_version_is_read_from_what_containerd_prints() {
        assert_eq!(version_in("containerd containerd.io 1.7.22-1 c814c75").as_deref(), Some("1.7.22"));
        assert_eq!(
            version_in("containerd github.com/containerd/containerd/v2 v2.0.0-rc.2 abc").as_deref(),
            Some("2.0.0")
        );
        assert_eq!(version_in("not a valid output"), None);
    }

    #[test]
    fn only_the_default_runtime_gives_control_groups_to_systemd() {
        for layout in [Layout::One, Layout::Two] {
            let file = Containerd { nvidia: true, ..plain(layout) }.file();
            assert_eq!(file.matches("SystemdCgroup = true").count(), 1);
            assert_eq!(file.matches("/usr/bin/nvidia-container-runtime").count(), 2);
        }
    }

    #[test]
    fn a_value_with_quotes_stays_one_value() {
        let file = Containerd { root: "/a\"\nversion = 3".to_owned(), ..plain(Layout::One) }.file();
        assert!(file.contains("root = \"/a\\\"\\nversion = 3\"\n"));
    }
}
