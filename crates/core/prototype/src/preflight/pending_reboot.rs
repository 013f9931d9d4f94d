//! Whether a donor has patches that only a reboot activates.

use kiln_types::Inspection;

/// Why the donor has to be rebooted before its disk is copied. Its clones would boot something that the donor has never run.
pub(super) fn pending_reboot(inspection: &Inspection) -> Option<String> {
    match &inspection.reboot_required {
        Some(packages) if packages.is_empty() => {
            return Some("the donor waits for a reboot (`/run/reboot-required`)".to_owned());
        }
        Some(packages) => return Some(format!("the donor waits for a reboot because of {}", packages.join(", "))),
        None => {}
    }
    let running = &inspection.kernel;
    let same_flavour = |kernel: &&String| flavour(kernel) == flavour(running);
    let newest = inspection.installed_kernels.iter().filter(same_flavour).max_by_key(|kernel| numbers(kernel))?;
    // A running kernel that is no longer installed, or newer than all that are, was not booted from this disk as it is now.
    (newest != running).then(|| format!("the donor runs kernel {running}, and its newest installed kernel is {newest}"))
}

/// The last part of a kernel release if it is a word, such as `azure` in `5.4.0-1036-azure`. Kernels of different flavours do not replace
/// each other.
fn flavour(release: &str) -> &str {
    let last = release.rsplit('-').next().unwrap_or_default();
    if last.bytes().all(|byte| byte.is_ascii_alphabetic()) { last } else { "" }
}

/// The numbers in a kernel release, for comparison: `5.4.0-1036` is newer than `5.4.0-999`.
fn numbers(release: &str) -> Vec<u64> {
    release.split(|c: char| !c.is_ascii_digit()).filter_map(|part| part.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::inspection;

    fn with(kernels: &[&str]) -> Option<String> {
        let installed_kernels = kernels.iter().map(ToString::to_string).collect();
        pending_reboot(&Inspection { installed_kernels, ..inspection() })
    }

    #[test]
    fn newest_kernel_of_the_same_flavour_must_be_running() {
        assert_eq!(with(&[]), None);
        assert_eq!(with(&["5.4.0-999-azure", "5.4.0-1036-azure", "6.8.0-90-generic"]), None);
        let found = with(&["5.4.0-1036-azure", "5.4.0-1103-azure"]).unwrap();
        assert_eq!(
            found,
            "the donor runs kernel 5.4.0-1036-azure, and its newest installed kernel is 5.4.0-1103-azure"
        );
        assert_eq!(flavour("5.15.122.1-2.cm2"), "");
    }

    #[test]
    fn requested_reboot_is_reported_with_its_packages() {
        let required = |packages: &[&str]| {
            let reboot_required = Some(packages.iter().map(ToString::to_string).collect());
            pending_reboot(&Inspection { reboot_required, ..inspection() }).unwrap()
        };
        assert_eq!(required(&["libc6", "linux-base"]), "the donor waits for a reboot because of libc6, linux-base");
        assert!(required(&[]).contains("/run/reboot-required"));
    }
}
