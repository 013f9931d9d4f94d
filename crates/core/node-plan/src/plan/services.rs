//! Which services hear of a plan, and in which order.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use kiln_node_config::Effect;

use super::Step;
use crate::layout::{BOOT_LOADER_UNIT, KUBELET_UNIT, RUNTIME_UNIT, UNITS};

/// Reloads, then restarts; the runtime after all others, the kubelet last. A kubelet whose files go is stopped for that long.
pub(super) fn services(mut affected: BTreeMap<String, Effect>, discarded: Vec<Step>) -> Vec<Step> {
    let (runtime, kubelet) = (affected.remove(RUNTIME_UNIT), affected.remove(KUBELET_UNIT));
    let one = |(unit, effect): (String, Effect)| match effect {
        Effect::None | Effect::Reload => Step::Reload { unit },
        // It does its work and ends.
        _ if unit == BOOT_LOADER_UNIT => Step::Start { unit },
        _ => Step::Restart { unit },
    };
    let (reloads, restarts): (Vec<Step>, Vec<Step>) =
        affected.into_iter().map(one).partition(|step| matches!(step, Step::Reload { .. }));
    let mut steps = reloads;
    steps.extend(restarts);
    steps.extend(runtime.map(|effect| one((RUNTIME_UNIT.to_owned(), effect))));
    if discarded.is_empty() {
        steps.extend(kubelet.map(|effect| one((KUBELET_UNIT.to_owned(), effect))));
    } else {
        steps.push(Step::Stop { unit: KUBELET_UNIT.to_owned() });
        steps.extend(discarded);
        steps.push(Step::Start { unit: KUBELET_UNIT.to_owned() });
    }
    steps
}

/// The unit whose own file is at a path; a drop-in is nobody's own file.
pub(super) fn unit_of(path: &str) -> Option<&str> {
    path.strip_prefix(UNITS)?.strip_prefix('/').filter(|name| !name.contains('/'))
}

/// The unit of what is mounted on a path, as `systemd-escape --path` names it.
pub(super) fn mount_unit(path: &str) -> String {
    let mut name = String::new();
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
    format!("{name}.mount")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_has_its_unit() {
        assert_eq!(mount_unit("/mnt"), "mnt.mount");
        assert_eq!(mount_unit("/var/lib/my-disk"), "var-lib-my\\x2ddisk.mount");
        assert_eq!(mount_unit("/.hidden/a.b/"), "\\x2ehidden-a.b.mount");
    }

    #[test]
    fn the_runtime_restarts_before_the_kubelet_and_after_all_others() {
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
