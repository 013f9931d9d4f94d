//! The order in which services are reloaded and restarted.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use kiln_node_config::Effect;

use super::Step;
use crate::layout::{BOOT_LOADER_UNIT, KUBELET_UNIT, RUNTIME_UNIT, UNITS};

/// Reloads come before restarts; the runtime follows all other services, and the kubelet comes last because it needs the runtime. If
/// files of the kubelet are deleted, it is stopped meanwhile.
pub(super) fn services(mut affected: BTreeMap<String, Effect>, deletions: Vec<Step>) -> Vec<Step> {
    let (runtime, kubelet) = (affected.remove(RUNTIME_UNIT), affected.remove(KUBELET_UNIT));
    let step = |(unit, effect): (String, Effect)| match effect {
        Effect::None | Effect::Reload => Step::Reload { unit },
        // A oneshot unit.
        _ if unit == BOOT_LOADER_UNIT => Step::Start { unit },
        _ => Step::Restart { unit },
    };
    let (reloads, restarts): (Vec<Step>, Vec<Step>) =
        affected.into_iter().map(step).partition(|step| matches!(step, Step::Reload { .. }));
    let mut steps = reloads;
    steps.extend(restarts);
    steps.extend(runtime.map(|effect| step((RUNTIME_UNIT.to_owned(), effect))));
    if deletions.is_empty() {
        steps.extend(kubelet.map(|effect| step((KUBELET_UNIT.to_owned(), effect))));
    } else {
        steps.push(Step::Stop { unit: KUBELET_UNIT.to_owned() });
        steps.extend(deletions);
        steps.push(Step::Start { unit: KUBELET_UNIT.to_owned() });
    }
    steps
}

/// The unit whose main file is at a path; none for a drop-in.
pub(super) fn unit_at(path: &str) -> Option<&str> {
    path.strip_prefix(UNITS)?.strip_prefix('/').filter(|name| !name.contains('/'))
}

/// The unit that systemd derives from a path in `fstab`, named as by `systemd-escape --path`. `kind` is `mount` or `swap`.
pub fn unit_for_path(path: &str, kind: &str) -> String {
    let mut name = String::new();
    if path.trim_matches('/').is_empty() {
        name.push('-');
    }
    for (index, byte) in path.trim_matches('/').bytes().enumerate() {
        match byte {
            b'/' => name.push('-'),
            b'.' if index == 0 => name.push_str("\\x2e"),
            b if b.is_ascii_alphanumeric() || b":_.".contains(&b) => name.push(char::from(b)),
            b => {
                let _ = write!(name, "\\x{b:02x}");
            }
        }
    }
    format!("{name}.{kind}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_escaped_as_systemd_escapes_them() {
        assert_eq!(unit_for_path("/mnt", "mount"), "mnt.mount");
        assert_eq!(unit_for_path("/var/lib/kiln/swapfile", "swap"), "var-lib-kiln-swapfile.swap");
        assert_eq!(unit_for_path("/var/lib/my-disk", "mount"), "var-lib-my\\x2ddisk.mount");
        assert_eq!(unit_for_path("/.hidden/a.b/", "mount"), "\\x2ehidden-a.b.mount");
        assert_eq!(unit_for_path("/", "mount"), "-.mount");
    }

    #[test]
    fn runtime_restarts_after_other_services_and_before_the_kubelet() {
        let affected = [
            ("zz.service", Effect::Restart),
            ("kubelet.service", Effect::Restart),
            ("a.service", Effect::Reload),
            ("containerd.service", Effect::Restart),
        ]
        .map(|(unit, effect)| (unit.to_owned(), effect));
        let steps: Vec<String> = services(affected.into(), Vec::new()).iter().map(ToString::to_string).collect();
        let wanted =
            ["reload a.service", "restart zz.service", "restart containerd.service", "restart kubelet.service"];
        assert_eq!(steps, wanted);
    }
}
