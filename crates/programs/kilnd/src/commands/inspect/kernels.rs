//! Patches that wait for a reboot.

use crate::os::Root;

/// The marker that package scripts leave. `/var/run` is a link to `/run` on all but very old systems.
const REBOOT_REQUIRED: [&str; 2] = ["/run/reboot-required", "/var/run/reboot-required"];

/// The kernels in `/boot`. A system without any there boots one of those in `/lib/modules`.
pub(super) fn installed(root: &Root) -> Result<Vec<String>, crate::os::Error> {
    let in_boot = root.text_names("/boot")?;
    let in_boot: Vec<String> =
        in_boot.iter().filter_map(|name| name.strip_prefix("vmlinuz-")).map(str::to_owned).collect();
    if in_boot.is_empty() { root.text_names("/lib/modules") } else { Ok(in_boot) }
}

/// The packages that requested a reboot; none if no reboot is required.
pub(super) fn reboot_required(root: &Root) -> Result<Option<Vec<String>>, crate::os::Error> {
    for path in REBOOT_REQUIRED {
        if root.read_if_exists(path)?.is_none() {
            continue;
        }
        let packages = root.read_if_exists(format!("{path}.pkgs"))?.unwrap_or_default();
        let mut packages: Vec<String> =
            String::from_utf8_lossy(&packages).split_whitespace().map(str::to_owned).collect();
        packages.sort();
        packages.dedup();
        return Ok(Some(packages));
    }
    Ok(None)
}
