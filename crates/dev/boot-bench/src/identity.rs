//! The kind of boot that kilnd detected. A clone that boots as fast as an ordinary node must still have reset its identity.

/// The kind of boot that kilnd detected, from the machine's journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identity {
    /// The disk has no identity yet.
    First,
    /// The disk has the identity of this machine.
    Again,
    /// The disk had the identity of a donor, which was reset.
    Reset,
}

impl Identity {
    /// The kind of boot in a journal; `None` without messages of kilnd, and for a reset that did not complete.
    pub(crate) fn from_journal(journal: &str) -> Option<Self> {
        let has = |words: &str| {
            journal.lines().any(|line| line.split_once("]: ").is_some_and(|(_, text)| text.starts_with(words)))
        };
        if has("identity: clone boot") {
            return has("identity: reset ").then_some(Self::Reset);
        }
        let others = [("identity: again boot", Self::Again), ("identity: first boot", Self::First)];
        others.into_iter().find(|(words, _)| has(words)).map(|(_, identity)| identity)
    }

    /// The name in the JSON report.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::First => "first",
            Self::Again => "again",
            Self::Reset => "reset",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clone_boot_counts_only_after_its_reset() {
        let line = |text: &str| format!("[    6.329174] bench-node-0 kilnd[120]: {text}\n");
        let (clone, reset) =
            (line("identity: clone boot"), line("identity: reset machine-id, host-name; no credential"));
        assert_eq!(Identity::from_journal(&format!("{clone}{reset}")), Some(Identity::Reset));
        assert_eq!(Identity::from_journal(&clone), None, "it was not reset");
        assert_eq!(Identity::from_journal(&line("identity: again boot")), Some(Identity::Again));
        assert_eq!(Identity::from_journal(&line("identity: first boot")), Some(Identity::First));
        assert_eq!(Identity::from_journal(&line("about identity: again boot")), None);
        assert_eq!(Identity::from_journal(""), None);
    }
}
