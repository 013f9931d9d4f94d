//! `kilnd inspect`: describes a node without changing it. Secrets are listed by path and not shown.
//!
//! [`packages`] and [`rpm`] list packages, [`runtime`] tells which runtime the kubelet uses, [`images`] and [`bolt`] read containerd's databases, [`kernels`]
//! finds patches that wait for a reboot, [`machine_lines`] finds lines that belong to one
//! machine, and [`secrets`] lists secret files.

pub mod bolt;
mod images;
mod kernels;
mod machine_lines;
mod packages;
mod rpm;
mod runtime;
mod secrets;

use crate::os::Root;
use crate::sources::{OvfEnv, decode};
use kiln_node_plan::layout::{self, FSTAB, IMAGE};
use kiln_node_plan::{Findings, Image, Treatment};
use kiln_types::{CustomData, DiskUse, FirstBootUnit, Inspection, JoinCredential, SecretBytes, parse_fstab};

use crate::args::Output;
use crate::commands::{CommandResult, DONE, FAILED};
use crate::identity::{self, IdentityError, ancestry, items, join};
use crate::node::Node;

/// Possible paths of the unit that resets a clone.
const UNIT: [&str; 3] = [
    "/etc/systemd/system/kiln-identity.service",
    "/usr/lib/systemd/system/kiln-identity.service",
    "/lib/systemd/system/kiln-identity.service",
];
/// Where a first boot leaves custom data: cloud-init, waagent, kilnd.
const CUSTOM_DATA: [&str; 3] =
    ["/var/lib/cloud/instance/user-data.txt", "/var/lib/waagent/CustomData", layout::CUSTOM_DATA];
const OVF_ENV: &str = "/var/lib/waagent/ovf-env.xml";
/// Shown if a version cannot be determined without executing the program.
const UNKNOWN: &str = "unknown";

/// `kilnd inspect`. With a key the output is [`Findings`], which is safe to appear in logs.
pub fn run(node: &Node, key: Option<&str>, output: Output) -> CommandResult {
    let failed = |error: &dyn std::error::Error| {
        node.log.report(error);
        CommandResult { code: FAILED, text: String::new() }
    };
    let found = match inspect(node) {
        Ok(found) => found,
        Err(error) => return failed(&error),
    };
    let text = match (output, key) {
        (Output::Text, _) => text(&found),
        (Output::Json, None) => serde_json::to_string(&found).unwrap_or_default() + "\n",
        (Output::Json, Some(key)) => {
            let sealed = found
                .custom_data
                .bytes()
                .map(|bytes| kiln_tls::seal(&kiln_tls::SystemRandom::new(), key, bytes.expose()))
                .transpose();
            match sealed {
                Ok(sealed_custom_data) => {
                    let findings = Findings { inspection: found, sealed_custom_data };
                    serde_json::to_string(&findings).unwrap_or_default() + "\n"
                }
                Err(error) => return failed(&error),
            }
        }
    };
    CommandResult { code: DONE, text }
}

/// Inspects a node.
pub fn inspect(node: &Node) -> Result<Inspection, IdentityError> {
    let root = &node.root;
    let host_name = text_of(root, "/etc/hostname")?;
    let packages = packages::installed(root)?;
    let image = image(root)?;
    let version = |listed: Option<&String>, names: &[&str]| {
        let by_package =
            || names.iter().find_map(|name| packages.get(*name)).map(|version| packages::upstream(version));
        listed.map(String::as_str).or_else(by_package).map(str::to_owned)
    };
    let kubelet = version(image.kubelets.keys().last(), &["kubelet"]);
    let runtime =
        version(image.runtimes.keys().last(), &["containerd.io", "moby-containerd", "containerd", "containerd-app"]);
    let mut identity = Vec::new();
    for item in items::all(root)?.into_iter().filter(|item| item.treatment != Treatment::Keep) {
        if !item.paths_with_identity(root)?.is_empty() {
            identity.push(item.name);
        }
    }
    let unknown = || JoinCredential::Unknown { why: "no kubelet kubeconfig found".to_owned() };
    let disk = root.disk("/")?;
    let custom_data = custom_data(root)?;
    Ok(Inspection {
        vm_id: crate::sources::vm_id(&node.endpoints).map(String::from).unwrap_or_default(),
        os_release: os_release(root)?,
        kernel: kernel(root)?,
        kubelet_version: kubelet.map_or(UNKNOWN.to_owned(), |version| format!("v{}", version.trim_start_matches('v'))),
        runtime_version: match runtime::docker(root, &packages)? {
            Some(docker) => docker,
            None => runtime.map_or(UNKNOWN.to_owned(), |version| format!("containerd://{version}")),
        },
        disk: DiskUse { size_bytes: disk.size, used_bytes: disk.used },
        fstab: parse_fstab(&text_of(root, FSTAB)?),
        join_credential: join::credential(root)?.unwrap_or_else(unknown),
        recipe_runners: join::recipe_runners(root)?,
        node_config_in_custom_data: custom_data.bytes().is_some_and(|bytes| is_node_config(bytes.expose())),
        custom_data,
        literal_host_names: machine_lines::host_names(root, &host_name)?,
        static_addresses: machine_lines::addresses(root)?,
        node_ips: machine_lines::node_ips(root)?,
        installed_kernels: kernels::installed(root)?,
        reboot_required: kernels::reboot_required(root)?,
        identity,
        first_boot_unit: first_boot_unit(node, packages.get("kilnd").map(String::as_str))?,
        cached_images: images::cached(root)?,
        ancestry: ancestry::versions(&ancestry::read(root)?),
        secrets: secrets::list(root)?,
        host_name,
        packages,
    })
}

fn text_of(root: &Root, path: &str) -> Result<String, crate::os::Error> {
    let bytes = root.read_if_exists(path)?.unwrap_or_default();
    Ok(String::from_utf8_lossy(&bytes).trim_end().to_owned())
}

fn image(root: &Root) -> Result<Image, crate::os::Error> {
    let bytes = root.read_if_exists(IMAGE)?.unwrap_or_default();
    Ok(serde_json::from_slice(&bytes).unwrap_or_default())
}

fn os_release(root: &Root) -> Result<String, crate::os::Error> {
    let text = text_of(root, "/etc/os-release")?;
    let name = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    Ok(name.unwrap_or(UNKNOWN).trim_matches(['"', '\'']).to_owned())
}

/// The running kernel if the root has `/proc`, else the last one on the disk.
fn kernel(root: &Root) -> Result<String, crate::os::Error> {
    let running = text_of(root, "/proc/sys/kernel/osrelease")?;
    if !running.is_empty() {
        return Ok(running);
    }
    Ok(root.text_names("/lib/modules")?.pop().unwrap_or_else(|| UNKNOWN.to_owned()))
}

fn custom_data(root: &Root) -> Result<CustomData, crate::os::Error> {
    for path in CUSTOM_DATA {
        if let Some(bytes) = root.read_if_exists(path)?.filter(|bytes| !bytes.is_empty()) {
            return Ok(as_passed(&SecretBytes::new(bytes)));
        }
    }
    let media = root.read_if_exists(OVF_ENV)?.and_then(|bytes| OvfEnv::parse(&bytes).ok());
    Ok(media.and_then(|ovf| ovf.custom_data).as_ref().map_or_else(CustomData::absent, as_passed))
}

/// The custom data before Azure encoded it. On the provisioning media and in copies of it, it is encoded in base64.
fn as_passed(bytes: &SecretBytes) -> CustomData {
    CustomData::found(crate::sources::unbase64(bytes.expose()).map_or_else(|| bytes.clone(), SecretBytes::new))
}

/// Whether custom data is a NodeConfig. Ignition's configuration is JSON too.
fn is_node_config(custom_data: &[u8]) -> bool {
    let document = decode(custom_data).ok().and_then(|decoded| serde_json::from_slice(&decoded.document).ok());
    document.is_some_and(|document: serde_json::Value| document["kind"] == "NodeConfig")
}

/// The first-boot unit, if it is enabled.
fn first_boot_unit(node: &Node, packaged: Option<&str>) -> Result<Option<FirstBootUnit>, crate::os::Error> {
    let root = &node.root;
    let mut exists = false;
    for path in UNIT {
        exists |= root.kind(path)?.is_some();
    }
    if !exists || !crate::apply::enablement::is_wanted(root, "kiln-identity.service")? {
        return Ok(None);
    }
    let version = packaged.unwrap_or(env!("CARGO_PKG_VERSION")).to_owned();
    let recorded_vm_id = identity::recorded(node)?.unwrap_or_default();
    Ok(Some(FirstBootUnit { recorded_vm_id, version }))
}

fn text(found: &Inspection) -> String {
    let first_boot = found.first_boot_unit.as_ref().map_or("none".to_owned(), |unit| {
        format!(
            "{}, recorded {}",
            unit.version,
            if unit.recorded_vm_id.is_empty() { "no owner" } else { &unit.recorded_vm_id }
        )
    });
    let custom_data = match found.custom_data.size() {
        _ if !found.custom_data.present() => "none".to_owned(),
        size => format!("{size} bytes"),
    };
    let rows = [
        ("host name", found.host_name.clone()),
        ("machine", found.vm_id.clone()),
        ("system", format!("{}, kernel {}", found.os_release, found.kernel)),
        ("kubelet", found.kubelet_version.clone()),
        ("runtime", found.runtime_version.clone()),
        ("packages", found.packages.len().to_string()),
        ("disk", format!("{} of {} MiB used", found.disk.used_bytes >> 20, found.disk.size_bytes >> 20)),
        ("joined with", found.join_credential.kind().to_owned()),
        ("custom data", custom_data),
        ("identity", found.identity.join(", ")),
        ("first boot", first_boot),
        ("images", found.cached_images.len().to_string()),
        ("secrets", found.secrets.iter().map(|secret| secret.path.as_str()).collect::<Vec<_>>().join(", ")),
    ];
    rows.iter().fold(String::new(), |text, (name, value)| text + &format!("{name:<12} {value}\n"))
}
