//! The container runtime: containerd's configuration, in the format of its version, and its environment.

use kiln_types::json::merge_patch;
use serde_json::{Map, Value, json};

use super::bridge;
use super::draft::Draft;
use super::flags::proxies;
use crate::file::DesiredFile;
use crate::image::numbers;
use crate::json::at;
use crate::layout::{self, RUNTIME_UNIT, current};
use crate::toml;

/// The CNI configuration folder. An agent in the cluster may write there too.
pub(super) const CNI_FOLDER: &str = "/etc/cni/net.d";

/// In a generation: the folder with one folder per registry.
pub(super) const REGISTRIES: &str = "certs.d";

/// The registry configuration of the image, used after the generation's.
const IMAGE_REGISTRIES: &str = "/etc/containerd/certs.d";

/// When memory runs out, the kernel kills the containers before containerd.
const OOM_SCORE: i64 = -999;

pub(super) fn render(draft: &mut Draft<'_>) {
    let runtime = &draft.spec.runtime;
    let image = &draft.facts.image;
    if let Some(path) = image.runtime(&runtime.version) {
        draft.file(DesiredFile::link("containerd", path).restarts(RUNTIME_UNIT));
    } else {
        let available: Vec<&str> = image.runtimes.keys().map(String::as_str).collect();
        let reason = format!("the image has no containerd {}; it has {}", runtime.version, available.join(", "));
        draft.reject("spec.runtime.version", reason);
    }
    let version = numbers(image.runtime_version(&runtime.version));
    let format = Format::for_version(&version);
    let mut tree = format.tree(draft, &version);
    let asked: Map<String, Value> = runtime.configuration.clone().into_iter().collect();
    merge_patch(&mut tree, &Value::Object(asked));
    check(draft, &format, &tree);
    match toml::text(tree.as_object().expect("an object")) {
        Ok(text) => draft.file(DesiredFile::plain(layout::RUNTIME_CONFIG, text).restarts(RUNTIME_UNIT)),
        Err(error) => draft.reject(format!("spec.runtime.configuration[{}]", error.path), error.reason),
    }
    draft.file(DesiredFile::plain(layout::RUNTIME_ENV, proxies(draft)).restarts(RUNTIME_UNIT));
}

/// The format of a configuration file.
struct Format {
    version: u64,
    /// The name of the plugin that runs pods.
    runtime: &'static str,
    /// The name of the plugin that pulls images.
    images: &'static str,
}

impl Format {
    /// containerd 2 also reads the older format, so an unknown version gets that one.
    fn for_version(version: &[u64]) -> Self {
        if version.first().is_some_and(|major| *major >= 2) {
            Self { version: 3, runtime: "io.containerd.cri.v1.runtime", images: "io.containerd.cri.v1.images" }
        } else {
            Self { version: 2, runtime: "io.containerd.grpc.v1.cri", images: "io.containerd.grpc.v1.cri" }
        }
    }

    fn tree(&self, draft: &Draft<'_>, version: &[u64]) -> Value {
        let (runtime, image) = (&draft.spec.runtime, &draft.facts.image);
        let plugins = &image.cni_plugins;
        let binaries =
            if version >= [2, 1].as_slice() { json!({"bin_dirs": [plugins]}) } else { json!({"bin_dir": plugins}) };
        let mut cni = json!({"conf_dir": CNI_FOLDER});
        merge_patch(&mut cni, &binaries);
        if bridge::is_used(draft.spec) {
            cni["conf_template"] = json!(current(bridge::TEMPLATE));
        }
        let mut tree = json!({"version": self.version, "oom_score": OOM_SCORE, "plugins": {}});
        let default = default_runtime(draft);
        let mut runtimes = json!({});
        for name in ["runc", default] {
            merge_patch(&mut runtimes, &json!({name: container_runtime(draft, name)}));
        }
        let path = format!("{}:{IMAGE_REGISTRIES}", current(REGISTRIES));
        merge_patch(
            &mut tree["plugins"],
            &json!({self.runtime: {
                "cni": cni,
                "containerd": {"default_runtime_name": default, "runtimes": runtimes},
            }}),
        );
        merge_patch(&mut tree["plugins"], &json!({self.images: {"registry": {"config_path": path}}}));
        let sandbox = if runtime.sandbox_image.is_empty() { &image.sandbox_image } else { &runtime.sandbox_image };
        if !sandbox.is_empty() {
            let setting = if self.version == 3 {
                json!({"pinned_images": {"sandbox": sandbox}})
            } else {
                json!({"sandbox_image": sandbox})
            };
            merge_patch(&mut tree["plugins"], &json!({self.images: setting}));
        }
        if !runtime.root.is_empty() {
            tree["root"] = json!(runtime.root);
        }
        tree
    }
}

fn container_runtime(draft: &Draft<'_>, name: &str) -> Value {
    let mut options = json!({"SystemdCgroup": draft.spec.runtime.systemd_cgroup.unwrap_or(true)});
    let known = draft.facts.image.container_runtimes.get(name).cloned();
    // containerd finds runc itself.
    if let Some(path) = known.or_else(|| (name != "runc").then(|| format!("/usr/bin/{name}"))) {
        options["BinaryName"] = json!(path);
    }
    json!({"runtime_type": "io.containerd.runc.v2", "options": options})
}

fn default_runtime<'a>(draft: &Draft<'a>) -> &'a str {
    let asked = draft.spec.runtime.default_runtime.as_str();
    if asked.is_empty() { "runc" } else { asked }
}

/// The kubelet and the runtime must use the same cgroup driver, or no pod starts.
fn check(draft: &mut Draft<'_>, format: &Format, tree: &Value) {
    let default = default_runtime(draft);
    let is_bad = !default.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    draft.reject_if(is_bad, "spec.runtime.defaultRuntime", format!("`{default}` is not a program name"));
    let options = at(tree, &["plugins", format.runtime, "containerd", "runtimes", default, "options"]);
    let systemd = options.and_then(|options| options["SystemdCgroup"].as_bool()).unwrap_or(false);
    let driver = draft.spec.kubelet.configuration.get("cgroupDriver").and_then(Value::as_str);
    let driver =
        driver.unwrap_or(if draft.spec.runtime.systemd_cgroup.unwrap_or(true) { "systemd" } else { "cgroupfs" });
    draft.reject_if(
        systemd != (driver == "systemd"),
        "spec.runtime.systemdCgroup",
        format!(
            "the kubelet's cgroupDriver is `{driver}` but the runtime's SystemdCgroup is {systemd}: no pod would start"
        ),
    );
    let asked = draft.spec.runtime.configuration.get("version");
    draft.reject_if(
        asked.is_some_and(|asked| *asked != json!(format.version)),
        "spec.runtime.configuration[version]",
        format!("this containerd needs version {}", format.version),
    );
}
