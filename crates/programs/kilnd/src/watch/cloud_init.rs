//! cloud-init, if it runs on this machine too. It writes files that a document may contain as well (`/etc/fstab`, `/etc/hosts`, trusted
//! certificates, accounts), and it does so while kilnd boots and after it. So kilnd verifies the node once more when cloud-init has ended.

use crate::os::Root;

/// Its generator creates this file when it starts cloud-init.
const ENABLED: &str = "/run/cloud-init/enabled";
/// Its last stage creates this file.
const RESULT: &str = "/run/cloud-init/result.json";

/// Whether cloud-init may still change files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CloudInit {
    /// It does not run on this machine, or it has ended.
    Done,
    Running,
}

impl CloudInit {
    pub(super) fn observe(root: &Root) -> Self {
        let exists = |path| root.kind(path).ok().flatten().is_some();
        if exists(ENABLED) && !exists(RESULT) { Self::Running } else { Self::Done }
    }

    /// Follows the state, and returns whether cloud-init has just ended.
    pub(super) fn has_ended(&mut self, root: &Root) -> bool {
        let before = *self;
        if before == Self::Running {
            *self = Self::observe(root);
        }
        before != *self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn end_is_noticed_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let root = Root::open(folder.path()).expect("a root");
        assert!(!CloudInit::observe(&root).has_ended(&root), "no cloud-init");
        std::fs::create_dir_all(folder.path().join("run/cloud-init")).expect("a folder");
        std::fs::write(folder.path().join(&ENABLED[1..]), "").expect("written");
        let mut state = CloudInit::observe(&root);
        assert!(!state.has_ended(&root), "it runs");
        std::fs::write(folder.path().join(&RESULT[1..]), "{}").expect("written");
        assert_eq!((state.has_ended(&root), state.has_ended(&root)), (true, false));
        assert!(!CloudInit::observe(&root).has_ended(&root), "it ended before kilnd started");
    }
}
