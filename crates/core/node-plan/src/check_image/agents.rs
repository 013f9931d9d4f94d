//! Other programs that configure the machine: which of them compete with kilnd, and which reports to the platform that the machine is
//! provisioned.

use super::{Finding, Severity, Tree, UnitFile};

const CLOUD_CONFIG: &str = "/etc/cloud/cloud.cfg";
const WAAGENT_CONFIG: &str = "/etc/waagent.conf";
/// Modules of cloud-init that do the same as kilnd.
const MODULES: [&str; 12] = [
    "disk_setup",
    "growpart",
    "mounts",
    "ntp",
    "resizefs",
    "set_hostname",
    "ssh",
    "timezone",
    "update_etc_hosts",
    "update_hostname",
    "users-groups",
    "write-files",
];

/// Agents that compete as soon as one of their units is enabled: id, units, what they do, fix.
const BY_UNIT: [(&str, &[&str], &str, &str); 3] = [
    ("aks-node-controller", &["aks-node-controller.service"], "provisions the node as well", "disable the unit"),
    ("automatic-updates", &["dnf-automatic.timer", "dnf-automatic-install.timer"], AUTOMATIC, AUTOMATIC_FIX),
    (
        "ignition",
        &["ignition-firstboot-complete.service"],
        "configures the first boot as well",
        "use an image without Ignition",
    ),
];
const AUTOMATIC: &str = "updates packages, and so restarts containerd and the kubelet, at any time";
const AUTOMATIC_FIX: &str = "disable it and update by new images";

/// The names that waagent's unit has in distributions.
const WAAGENT_UNITS: [&str; 2] = ["walinuxagent.service", "waagent.service"];
/// Agents besides cloud-init and waagent that report to the platform.
const REPORTING_UNITS: [(&str, &str); 3] = [
    ("azure-init.service", "azure-init"),
    ("afterburn-checkin.service", "afterburn"),
    ("afterburn-firstboot-checkin.service", "afterburn"),
];

pub(super) fn check(tree: &dyn Tree, findings: &mut Vec<Finding>) {
    let mut warn = |id, path: &str, message: String, fix: &str| {
        let (path, fix) = (path.to_owned(), fix.to_owned());
        findings.push(Finding { id, severity: Severity::Warning, path, message, fix });
    };
    if has_cloud_init(tree) {
        let modules = competing_modules(tree);
        let message = if modules.is_empty() {
            "cloud-init is enabled and delays the boot".to_owned()
        } else {
            format!("cloud-init is enabled, and its modules do the same as kilnd: `{}`", modules.join("`, `"))
        };
        let fix = "create `/etc/cloud/cloud-init.disabled`, or remove these modules from `/etc/cloud/cloud.cfg`";
        warn("cloud-init", CLOUD_CONFIG, message, fix);
    }
    if let Some(config) = waagent(tree) {
        if config.provisions() {
            let message = format!("waagent is enabled and provisions the machine as well (`{WAAGENT_CONFIG}`)");
            warn(
                "waagent-provisioning",
                WAAGENT_CONFIG,
                message,
                "set `Provisioning.Agent=disabled`; extensions still work",
            );
        }
        if config.formats_disk {
            let message = format!(
                "waagent formats and mounts the temporary disk (`ResourceDisk.Format=y` in `{WAAGENT_CONFIG}`)"
            );
            warn("waagent-temporary-disk", WAAGENT_CONFIG, message, "set `ResourceDisk.Format=n`");
        }
    }
    if let Some(path) = unattended_upgrades(tree) {
        let message =
            format!("`{path}` turns on unattended upgrades, which restart containerd and the kubelet at any time");
        warn(
            "unattended-upgrades",
            &path,
            message,
            "set `APT::Periodic::Unattended-Upgrade \"0\";` and update by new images",
        );
    }
    for (id, units, what, fix) in BY_UNIT {
        for unit in units.iter().filter(|unit| is_enabled(tree, unit)) {
            warn(id, unit, format!("`{unit}` is enabled and {what}"), fix);
        }
    }
    for path in tree.glob("/etc/kubernetes/manifests/*") {
        if tree.text(&path).is_some_and(|text| text.contains("kured")) {
            let message = format!("`{path}` runs kured, which reboots the node without regard to a trial");
            warn("kured", &path, message, "delete the manifest; kilnd requests reboots from the cluster");
        }
    }
}

/// The agent that reports to the platform that this machine is provisioned; none if kilnd has to.
pub fn provisioning_agent(tree: &dyn Tree) -> Option<&'static str> {
    let has_cloud_init = has_cloud_init(tree);
    if has_cloud_init && datasources(tree).is_none_or(|list| list.contains("Azure")) {
        return Some("cloud-init");
    }
    // waagent also reports if its provisioning is disabled. With `cloud-init` it waits for a file that only cloud-init writes.
    if waagent(tree).is_some_and(|config| config.agent != "cloud-init" || has_cloud_init) {
        return Some("waagent");
    }
    REPORTING_UNITS.iter().find(|(unit, _)| is_enabled(tree, unit)).map(|(_, name)| *name)
}

fn is_enabled(tree: &dyn Tree, unit: &str) -> bool {
    UnitFile::read(tree, unit).is_some_and(|file| !file.is_masked) && tree.is_wanted(unit)
}

/// Whether cloud-init runs at boot. Its generator decides by the kernel command line and by these files, and leaves its decision in `/run`.
fn has_cloud_init(tree: &dyn Tree) -> bool {
    if !is_enabled(tree, "cloud-init-local.service") && !is_enabled(tree, "cloud-init-main.service") {
        return false;
    }
    if tree.exists("/run/cloud-init/enabled") {
        return true;
    }
    let arguments = tree.text("/proc/cmdline").unwrap_or_default();
    let by_argument = arguments.split_whitespace().find_map(|word| word.strip_prefix("cloud-init="));
    match by_argument {
        Some("disabled") => false,
        Some("enabled") => true,
        _ => {
            tree.exists("/etc/cloud/cloud-init.enabled")
                || !tree.exists("/etc/cloud/cloud-init.disabled") && !tree.exists("/run/cloud-init/disabled")
        }
    }
}

/// The configuration files of cloud-init, later ones override earlier ones.
fn cloud_files(tree: &dyn Tree) -> Vec<String> {
    let mut files = vec![CLOUD_CONFIG.to_owned()];
    files.extend(tree.glob("/etc/cloud/cloud.cfg.d/*.cfg"));
    files
}

/// The modules that compete, as far as a list without YAML parser tells: their names are items of the module lists.
fn competing_modules(tree: &dyn Tree) -> Vec<&'static str> {
    let texts: Vec<String> = cloud_files(tree).iter().filter_map(|path| tree.text(path)).collect();
    let is_item = |line: &str, name: &str| {
        let item = line.trim().trim_start_matches(['-', '[', ' ', '"', '\'']);
        let item = item.trim_end_matches([']', ',', '"', '\'']).replace('_', "-");
        line.trim().starts_with('-') && item == name.replace('_', "-")
    };
    let has = |name: &&str| texts.iter().any(|text| text.lines().any(|line| is_item(line, name)));
    MODULES.into_iter().filter(has).collect()
}

/// The data sources that cloud-init may use; none if the list is not restricted.
fn datasources(tree: &dyn Tree) -> Option<String> {
    let mut files = cloud_files(tree);
    // Written at boot by ds-identify.
    files.push("/run/cloud-init/cloud.cfg".to_owned());
    let lists = files.iter().filter_map(|path| {
        let text = tree.text(path)?;
        let start = text.lines().position(|line| line.starts_with("datasource_list:"))?;
        let mut lines = text.lines().skip(start);
        let mut list = lines.next()?.trim_start_matches("datasource_list:").trim().to_owned();
        // A block list continues on the following lines.
        for line in lines.take_while(|line| line.starts_with([' ', '-']) || line.trim().is_empty()) {
            list.push_str(line);
        }
        Some(list)
    });
    lists.last()
}

struct Waagent {
    /// `auto`, `waagent`, `cloud-init` or `disabled`.
    agent: String,
    formats_disk: bool,
}

impl Waagent {
    fn provisions(&self) -> bool {
        self.agent != "disabled"
    }
}

/// waagent's configuration, if its unit is enabled.
fn waagent(tree: &dyn Tree) -> Option<Waagent> {
    WAAGENT_UNITS.iter().find(|unit| is_enabled(tree, unit))?;
    let text = tree.text(WAAGENT_CONFIG).unwrap_or_default();
    let value = |key: &str| {
        let mut lines = text.lines().filter_map(|line| line.split_once('='));
        let found = lines.rfind(|(name, _)| name.trim() == key);
        found.map(|(_, value)| value.split('#').next().unwrap_or_default().trim().to_lowercase())
    };
    let is = |key: &str, wanted: &str| value(key).as_deref() == Some(wanted);
    // Older versions have `Enabled` and `UseCloudInit` instead of `Agent`.
    let agent = value("Provisioning.Agent").unwrap_or_else(|| {
        let by_flags = if is("Provisioning.UseCloudInit", "y") { "cloud-init" } else { "auto" };
        if is("Provisioning.Enabled", "n") && by_flags == "auto" { "disabled" } else { by_flags }.to_owned()
    });
    Some(Waagent { agent, formats_disk: is("ResourceDisk.Format", "y") })
}

/// The file that turns on unattended upgrades, if apt's timer or the service is enabled.
fn unattended_upgrades(tree: &dyn Tree) -> Option<String> {
    if !is_enabled(tree, "apt-daily-upgrade.timer") && !is_enabled(tree, "unattended-upgrades.service") {
        return None;
    }
    let setting = |path: &String| {
        let text = tree.text(path)?;
        let mut lines = text.lines().map(str::trim);
        let line = lines.rfind(|line| line.starts_with("APT::Periodic::Unattended-Upgrade "));
        line.map(|line| !line.contains("\"0\""))
    };
    let files = tree.glob("/etc/apt/apt.conf.d/*");
    let last = files.into_iter().rev().find_map(|path| Some((setting(&path)?, path)));
    last.filter(|(is_on, _)| *is_on).map(|(_, path)| path)
}
