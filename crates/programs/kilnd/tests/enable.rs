//! `kilnd enable` and `kilnd disable` on a root folder, as for an image; `e2e_package` runs them on booted nodes.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use kilnd::args::{Args, Output};
use kilnd::commands::disable::{self, DisableOptions, Files};
use kilnd::commands::enable::{self, EnableOptions};
use kilnd::node::Node;
use tempfile::TempDir;

const KUBELET: &str = "/usr/lib/systemd/system/kubelet.service";
const YES: EnableOptions = EnableOptions { yes: true, dry_run: false, refresh: false };
const REFRESH: EnableOptions = EnableOptions { yes: false, dry_run: false, refresh: true };
const DISABLE: DisableOptions = DisableOptions { yes: true, dry_run: false, files: Files::Automatic };

/// A root folder with a kubelet and the units of the package.
struct Image(TempDir);

impl Image {
    fn new() -> Self {
        Self::new_in(TempDir::new().expect("a folder"))
    }

    fn new_in(folder: TempDir) -> Self {
        let image = Self(folder);
        image.write(KUBELET, "[Service]\nExecStart=/usr/bin/kubelet\n");
        image.write("/etc/systemd/system/multi-user.target.wants/other.service", "");
        let units = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../units");
        for name in names(&units) {
            let text = fs::read_to_string(units.join(&name)).expect("a unit");
            image.write(&format!("/usr/lib/kiln/units/{name}"), &text);
        }
        image
    }

    fn at(&self, path: &str) -> PathBuf {
        self.0.path().join(path.trim_start_matches('/'))
    }

    fn write(&self, path: &str, text: &str) {
        fs::create_dir_all(self.at(path).parent().expect("a folder")).expect("created");
        fs::write(self.at(path), text).expect("written");
    }

    fn node(&self) -> Node {
        let words = ["status", "--root"].map(Into::into).into_iter().chain([self.0.path().into()]);
        Node::open(&Args::parse(words).expect("valid").locations).expect("a root")
    }

    /// Paths and link targets of everything in `/etc` and `/run`.
    fn files(&self) -> BTreeMap<String, Option<PathBuf>> {
        let (mut found, mut open) = (BTreeMap::new(), vec![self.at("/etc"), self.at("/run")]);
        while let Some(path) = open.pop() {
            if path.is_dir() && !path.is_symlink() {
                open.extend(fs::read_dir(&path).expect("a folder").map(|entry| entry.expect("an entry").path()));
            }
            let name = path.strip_prefix(self.0.path()).expect("below").display().to_string();
            if path.is_symlink() || path.exists() && !name.starts_with("run") {
                found.insert(name, fs::read_link(&path).ok());
            }
        }
        found
    }

    fn is_linked(&self, path: &str) -> bool {
        self.at(path).is_symlink()
    }

    /// Drop-ins of the kubelet.
    fn gates(&self) -> usize {
        fs::read_dir(self.at("/etc/systemd/system/kubelet.service.d")).map_or(0, Iterator::count)
    }
}

fn names(units: &Path) -> Vec<String> {
    let (mut found, mut open) = (Vec::new(), vec![units.to_owned()]);
    while let Some(folder) = open.pop() {
        for path in fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()) {
            if path.is_dir() {
                open.push(path);
            } else {
                found.push(path.strip_prefix(units).expect("below").display().to_string());
            }
        }
    }
    found
}

#[test]
fn enable_links_every_unit_and_disable_restores_the_folder() {
    let image = Image::new();
    let before = image.files();
    let shown = enable::run(&image.node(), EnableOptions { dry_run: true, ..EnableOptions::default() }, Output::Text);
    assert_eq!((shown.code, image.files()), (0, before.clone()));
    assert!(
        shown.text.contains("  - ExecStart=/usr/bin/kubelet (/usr/lib/systemd/system/kubelet.service)\n"),
        "{}",
        shown.text
    );
    assert!(shown.text.contains("containerd.service (does not exist on this machine):\n"), "{}", shown.text);
    assert!(shown.text.contains("takes effect at the first boot"), "{}", shown.text);
    let refused = enable::run(&image.node(), EnableOptions::default(), Output::Json);
    assert_eq!((refused.code, image.files()), (1, before.clone()));
    let refused: serde_json::Value = serde_json::from_str(&refused.text).expect("JSON");
    assert_eq!((&refused["enabled"], &refused["takesEffect"]), (&false.into(), &"firstBoot".into()));

    assert_eq!(enable::run(&image.node(), YES, Output::Text).code, 0);
    for name in names(&image.at("/usr/lib/kiln/units")) {
        let link = image.at(&format!("/etc/systemd/system/{name}"));
        assert_eq!(fs::read_link(link).expect("a link"), Path::new("/usr/lib/kiln/units").join(name));
    }
    assert!(image.is_linked("/etc/systemd/system/multi-user.target.wants/kiln-config.service"));
    assert!(image.is_linked("/etc/systemd/system/sysinit.target.wants/kiln-identity.service"));
    let node = image.node();
    assert_eq!(enable::run(&node, YES, Output::Text).text, "kilnd is enabled; nothing to do\n");
    assert_eq!(node.root.counts().total(), 0);

    assert_eq!(disable::run(&image.node(), DisableOptions::default(), Output::Text).code, 1);
    assert!(image.gates() > 0);
    assert_eq!(disable::run(&image.node(), DISABLE, Output::Text).code, 0);
    assert_eq!(image.files(), before);
    assert_eq!(disable::run(&image.node(), DISABLE, Output::Text).text, "kilnd is not enabled; nothing to do\n");
}

/// `systemctl` may use only units with the label of units, whatever folder they are in.
#[test]
fn enable_adds_the_labels_of_units_and_swap_file_to_an_selinux_policy_and_disable_removes_them() {
    // On a disk: not every tmpfs stores labels.
    let image = Image::new_in(TempDir::new_in("/var/tmp").expect("a folder"));
    let list = "/etc/selinux/targeted/contexts/files/file_contexts";
    image.write("/etc/selinux/config", "SELINUX=enforcing\nSELINUXTYPE=targeted\n");
    image.write(list, "/.* u:r:default_t:s0\n/usr/lib/systemd/system(/.*)? u:r:unit_t:s0\n");
    let before = image.files();
    let shown = enable::run(&image.node(), EnableOptions { dry_run: true, ..EnableOptions::default() }, Output::Text);
    let line = format!("add the SELinux labels of kiln's units and swap file to {list}.subs\n");
    assert!(shown.text.contains(&line), "{}", shown.text);
    assert_eq!(enable::run(&image.node(), YES, Output::Text).code, 0);
    let aliases = |image: &Image| fs::read_to_string(image.at(&format!("{list}.subs"))).expect("a list");
    assert_eq!(aliases(&image), "/usr/lib/kiln/units /usr/lib/systemd/system\n/var/lib/kiln/swapfile /var/swap\n");
    // Only root may set labels.
    if fs::metadata("/proc/self").expect("/proc").uid() == 0 {
        for path in ["/usr/lib/kiln/units/kiln-config.service", "/usr/lib/kiln/units/kubelet.service.d"] {
            let mut label = [0; 64];
            let length = rustix::fs::lgetxattr(image.at(path), "security.selinux", &mut label[..]).expect("a label");
            assert_eq!(&label[..length], b"u:r:unit_t:s0\0", "{path}");
        }
    }
    assert_eq!(enable::run(&image.node(), YES, Output::Text).text, "kilnd is enabled; nothing to do\n");
    assert_eq!(disable::run(&image.node(), DISABLE, Output::Text).code, 0);
    assert_eq!(image.files(), before);

    // Without kilnd the machine still uses its swap file.
    enable::run(&image.node(), YES, Output::Text);
    image.write("/var/lib/kiln/swapfile", "");
    disable::run(&image.node(), DISABLE, Output::Text);
    assert_eq!(aliases(&image), "/var/lib/kiln/swapfile /var/swap\n");
}

#[test]
fn refresh_follows_the_package_and_ignores_a_node_that_is_not_enabled() {
    let image = Image::new();
    let before = image.files();
    assert_eq!(enable::run(&image.node(), REFRESH, Output::Text).code, 0);
    assert_eq!(image.files(), before);
    enable::run(&image.node(), YES, Output::Text);
    let packaged = "/usr/lib/kiln/units/kubelet.service.d";
    fs::remove_dir_all(image.at(packaged)).expect("removed");
    image.write(&format!("{packaged}/zz-new.conf"), "[Unit]\n");
    image.write("/usr/lib/kiln/units/kiln-new.service", "[Install]\nWantedBy=a.target\n");
    assert_eq!(enable::run(&image.node(), REFRESH, Output::Text).code, 0);
    assert!(image.is_linked("/etc/systemd/system/a.target.wants/kiln-new.service"));
    assert_eq!(image.gates(), 1);
    assert!(image.is_linked("/etc/systemd/system/kubelet.service.d/zz-new.conf"));
    disable::run(&image.node(), DISABLE, Output::Text);
    assert_eq!(image.files(), before);
}

#[test]
fn file_of_the_user_is_not_replaced() {
    let image = Image::new();
    image.write("/etc/systemd/system/kiln-watch.service", "[Service]\nExecStart=/bin/own\n");
    let before = image.files();
    assert_eq!(enable::run(&image.node(), YES, Output::Text).code, 1);
    assert_eq!(image.files(), before);
    // Nor by disabling.
    disable::run(&image.node(), DISABLE, Output::Text);
    assert_eq!(image.files(), before);
}

/// Links to a package that was removed without its scripts: systemd ignores them, and `kilnd disable` removes them.
#[test]
fn links_of_a_removed_package_are_removed() {
    let image = Image::new();
    let before = image.files();
    enable::run(&image.node(), YES, Output::Text);
    fs::remove_dir_all(image.at("/usr/lib/kiln")).expect("removed");
    assert_eq!(enable::run(&image.node(), YES, Output::Text).code, 1, "there is nothing to enable");
    assert_eq!(disable::run(&image.node(), DISABLE, Output::Text).code, 0);
    assert_eq!(image.files(), before);
}

#[test]
fn disable_refuses_units_that_are_part_of_the_image() {
    let image = Image::new();
    image.write("/usr/lib/systemd/system/kiln-config.service", "[Unit]\n");
    assert_eq!(disable::run(&image.node(), DISABLE, Output::Text).code, 1);
}

/// `kilnd watch` removes the token after the commit of the first generation, which may be later.
#[test]
fn disable_removes_the_join_token_of_a_node_that_has_joined() {
    const GENERATION: &str = "/etc/kiln/generations/1-a";
    let certificate =
        "-----BEGIN CERTIFICATE-----\nMA==\n-----END CERTIFICATE-----\n-----BEGIN PRIVATE KEY-----\nMA==\n";
    for has_joined in [false, true] {
        let image = Image::new();
        enable::run(&image.node(), YES, Output::Text);
        image.write(&format!("{GENERATION}/credential"), "abcdef.0123456789abcdef\n");
        image.write(
            &format!("{GENERATION}/bootstrap-kubeconfig"),
            "users:\n- user:\n    token: abcdef.0123456789abcdef\n",
        );
        image.write(&format!("{GENERATION}/kubelet.json"), "{}\n");
        if has_joined {
            image.write("/var/lib/kubelet/pki/kubelet-client-current.pem", certificate);
        }
        assert_eq!(disable::run(&image.node(), DISABLE, Output::Text).code, 0);
        for file in ["credential", "bootstrap-kubeconfig"] {
            let exists = image.at(&format!("{GENERATION}/{file}")).exists();
            assert_eq!(exists, !has_joined, "{file}: a kubelet that has not joined may need it");
        }
        assert!(image.at(&format!("{GENERATION}/kubelet.json")).exists());
    }
}

/// Whenever kilnd is killed, a gate exists only together with the unit that opens it, and running the command again finishes it.
#[test]
fn interrupted_command_never_leaves_a_gate_without_the_unit_that_opens_it() {
    let is_open = |image: &Image| {
        image.gates() == 0
            || ["kiln-config.service", "kiln-identity.service"]
                .iter()
                .all(|unit| image.is_linked(&format!("/etc/systemd/system/{unit}")))
    };
    for (name, command) in [("enable", true), ("disable", false)] {
        for step in 0.. {
            let image = Image::new();
            let mut before = image.files();
            if !command {
                enable::run(&image.node(), YES, Output::Text);
            }
            let run = |node: &Node| {
                if command { enable::run(node, YES, Output::Text) } else { disable::run(node, DISABLE, Output::Text) }
            };
            let node = image.node();
            node.root.stop_after(Some(step));
            let ended = run(&node).code == 0;
            assert!(is_open(&image), "{name} interrupted at {step}: {:?}", image.files());
            assert_eq!(run(&image.node()).code, 0, "{name} interrupted at {step}");
            disable::run(&image.node(), DISABLE, Output::Text);
            let mut after = image.files();
            // Interrupted before the removal of an empty folder, which has no effect.
            for files in [&mut before, &mut after] {
                files.retain(|path, _| ![".service.d", ".wants"].iter().any(|suffix| path.ends_with(suffix)));
            }
            assert_eq!(after, before, "{name} interrupted at {step}");
            if ended {
                assert!(step > 10, "several operations are needed");
                break;
            }
        }
    }
}
