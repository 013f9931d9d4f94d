//! What kilnd took a boot for: a copy that costs no more than an ordinary start must have done what a copy has to do.

/// What kilnd took a boot for, as it said in the machine's journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identity {
    /// Nobody was this machine before.
    First,
    /// It is the machine that it was.
    Again,
    /// It was a copy, and got rid of its donor's identity.
    Reset,
}

impl Identity {
    /// Reads it from a journal; none where kilnd said nothing, or began a reset without coming to its end.
    pub(crate) fn of(journal: &str) -> Option<Self> {
        let said = |words: &str| {
            journal.lines().any(|line| line.split_once("]: ").is_some_and(|(_, text)| text.starts_with(words)))
        };
        if said("identity: clone boot") {
            return said("identity: reset ").then_some(Self::Reset);
        }
        let others = [("identity: again boot", Self::Again), ("identity: first boot", Self::First)];
        others.into_iter().find(|(words, _)| said(words)).map(|(_, identity)| identity)
    }

    /// For programs.
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
    fn a_copy_is_one_that_said_so_and_was_reset() {
        let line = |text: &str| format!("[    6.329174] bench-node-0 kilnd[120]: {text}\n");
        let (clone, reset) =
            (line("identity: clone boot"), line("identity: reset machine-id, host-name; no credential"));
        assert_eq!(Identity::of(&format!("{clone}{reset}")), Some(Identity::Reset));
        assert_eq!(Identity::of(&clone), None, "it was not reset");
        assert_eq!(Identity::of(&line("identity: again boot")), Some(Identity::Again));
        assert_eq!(Identity::of(&line("identity: first boot")), Some(Identity::First));
        assert_eq!(Identity::of(&line("about identity: again boot")), None);
        assert_eq!(Identity::of(""), None);
    }
}
