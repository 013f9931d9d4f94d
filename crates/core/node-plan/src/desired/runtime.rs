//! The runtime: containerd's configuration in the form that its version reads, and its environment.

use serde_json::{Map, Value, json};

use super::draft::Draft;
use super::flags::proxies;
use crate::artifact::Artifact;
use crate::image::numbers;
use crate::json::{at, merge};
use crate::layout::{self, RUNTIME_UNIT, current};
use crate::toml;

/// Where network plugins' configurations are: an agent in the cluster writes there too.
pub(super) const CNI_FOLDER: &str = "/etc/cni/net.d";

/// In a generation: a folder per registry.
pub(super) const REGISTRIES: &str = "certs.d";

/// What the image itself says of registries, asked after the generation.
const REGISTRIES_OF_IMAGE: &str = "/etc/containerd/certs.d";

/// The kernel kills this when memory runs out only after everything that it runs.
const OOM_SCORE: i64 = -999;

pub(super) fn render(draft: &mut Draft<'_>) {
    let runtime = &draft.spec.runtime;
    let image = &draft.facts.image;
    if let Some(path) = image.runtime(&runtime.version) {
        draft.file(Artifact::link("containerd", path).restarts(RUNTIME_UNIT));
    } else {
        let has: Vec<&str> = image.runtimes.keys().map(String::as_str).collect();
        let reason = format!("the image has no containerd {}, it has {}", runtime.version, has.join(", "));
        draft.unfit("spec.runtime.version", reason);
    }
    let version = numbers(image.runtime_version(&runtime.version));
    let form = Form::of(&version);
    let mut tree = form.tree(draft, &version);
    let asked: Map<String, Value> = runtime.configuration.clone().into_iter().collect();
    merge(&mut tree, &Value::Object(asked));
    check(draft, &form, &tree);
    match toml::text(tree.as_object().expect("an object")) {
        Ok(text) => draft.file(Artifact::plain(layout::RUNTIME_CONFIG, text).restarts(RUNTIME_UNIT)),
        Err(error) => draft.unfit(format!("spec.runtime.configuration[{}]", error.path), error.reason),
    }
    draft.file(Artifact::plain(layout::RUNTIME_ENV, proxies(draft)).restarts(RUNTIME_UNIT));
}

/// The names that a version has for things.
struct Form {
    /// The version of the form.
    version: u64,
    /// The plugin that runs pods.
    runtime: &'static str,
    /// The plugin that pulls images.
    images: &'static str,
}

impl Form {
    /// containerd 2 reads the older form as well, so that is what one of unknown version gets.
    fn of(version: &[u64]) -> Self {
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
        merge(&mut cni, &binaries);
        let mut tree = json!({"version": self.version, "oom_score": OOM_SCORE, "plugins": {}});
        let default = default_runtime(draft);
        let mut runtimes = json!({});
        for name in ["runc", default] {
            merge(&mut runtimes, &json!({name: container_runtime(draft, name)}));
        }
        let path = format!("{}:{REGISTRIES_OF_IMAGE}", current(REGISTRIES));
        merge(
            &mut tree["plugins"],
            &json!({self.runtime: {
                "cni": cni,
                "containerd": {"default_runtime_name": default, "runtimes": runtimes},
            }}),
        );
        merge(&mut tree["plugins"], &json!({self.images: {"registry": {"config_path": path}}}));
        let sandbox = if runtime.sandbox_image.is_empty() { &image.sandbox_image } else { &runtime.sandbox_image };
        if !sandbox.is_empty() {
            let place = if self.version == 3 {
                json!({"pinned_images": {"sandbox": sandbox}})
            } else {
                json!({"sandbox_image": sandbox})
            };
            merge(&mut tree["plugins"], &json!({self.images: place}));
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
    // runc is found by containerd itself.
    if let Some(path) = known.or_else(|| (name != "runc").then(|| format!("/usr/bin/{name}"))) {
        options["BinaryName"] = json!(path);
    }
    json!({"runtime_type": "io.containerd.runc.v2", "options": options})
}

fn default_runtime<'a>(draft: &Draft<'a>) -> &'a str {
    let asked = draft.spec.runtime.default_runtime.as_str();
    if asked.is_empty() { "runc" } else { asked }
}

/// The kubelet and the runtime must agree on who owns the control groups, or no pod starts.
fn check(draft: &mut Draft<'_>, form: &Form, tree: &Value) {
    let default = default_runtime(draft);
    let odd = !default.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    draft.unfit_when(odd, "spec.runtime.defaultRuntime", format!("`{default}` is no name of a program"));
    let options = at(tree, &["plugins", form.runtime, "containerd", "runtimes", default, "options"]);
    let systemd = options.and_then(|options| options["SystemdCgroup"].as_bool()).unwrap_or(false);
    let driver = draft.spec.kubelet.configuration.get("cgroupDriver").and_then(Value::as_str);
    let driver =
        driver.unwrap_or(if draft.spec.runtime.systemd_cgroup.unwrap_or(true) { "systemd" } else { "cgroupfs" });
    draft.unfit_when(
        systemd != (driver == "systemd"),
        "spec.runtime.systemdCgroup",
        format!(
            "the kubelet's cgroupDriver is `{driver}` and the runtime's SystemdCgroup is {systemd}: no pod would start"
        ),
    );
    let asked = draft.spec.runtime.configuration.get("version");
    draft.unfit_when(
        asked.is_some_and(|asked| *asked != json!(form.version)),
        "spec.runtime.configuration[version]",
        format!("this runtime gets version {}", form.version),
    );
}
