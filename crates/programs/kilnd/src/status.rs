//! What kilnd did last, for people and programs: one JSON file, replaced in one step.
//!
//! The file says who is in force and what is pending; it never says a value of the document, which others may read better from the
//! document itself, and never a secret.

use kiln_node_config::Effect;
use kiln_node_plan::{Generation, State};
use serde::{Deserialize, Serialize};

/// The form of the file. Fields are added without a new number; one that changes its meaning raises it.
pub const SCHEMA: u32 = 1;

/// What kilnd did last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// [`SCHEMA`].
    pub schema: u32,
    /// The program and its version.
    pub program: String,
    /// The command that wrote this.
    pub command: String,
    /// How it ended.
    pub outcome: Outcome,
    /// What this boot is: `first`, `clone` or `again`; absent where `kilnd identity` did not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot: Option<String>,
    /// The generation in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Option<Generation>,
    /// Whether it is on trial.
    #[serde(default)]
    pub on_trial: bool,
    /// The generation to which a failed trial goes back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<Generation>,
    /// The costliest effect of what was changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<Effect>,
    /// The fields that were changed, with what each cost.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<Changed>,
    /// What the node may not do by itself and asks for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pending: Vec<String>,
    /// What was found and did no harm: fields of a later version, a file that had been edited.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// What went wrong, outermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<String>,
    /// What to do next, where somebody has to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// Documents that came back and are not taken again by themselves.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<kiln_node_plan::Refusal>,
    /// What was done, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<StepTime>,
}

/// How a command ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Outcome {
    /// Everything was so already.
    #[default]
    Unchanged,
    /// The document is in force.
    Applied,
    /// The committed generation was verified and is in force.
    Verified,
    /// The cluster is asked; nothing that needs it was done.
    Asked,
    /// An earlier generation is in force again.
    Returned,
    /// It failed; what was in force still is.
    Failed,
}

/// A field that was changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Changed {
    /// Its path in the document.
    pub path: String,
    /// What it cost.
    pub effect: Effect,
}

/// A step and its time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StepTime {
    /// What was done.
    pub name: String,
    /// When it began: microseconds since the machine started, time in suspension included.
    pub started_usec: u64,
    /// How long it took.
    pub took_usec: u64,
    /// Whether it succeeded.
    pub ok: bool,
}

impl Status {
    /// A status of this command, with what the node remembers.
    pub fn of(command: &str, outcome: Outcome, state: &State) -> Self {
        Self {
            schema: SCHEMA,
            program: concat!("kilnd ", env!("CARGO_PKG_VERSION")).to_owned(),
            command: command.to_owned(),
            outcome,
            generation: state.in_force().cloned(),
            on_trial: state.trial.is_some(),
            previous: state.trial.as_ref().and(state.committed.clone()),
            refused: state.refused.clone(),
            ..Self::default()
        }
    }

    /// The file's bytes.
    pub fn to_json(&self) -> Vec<u8> {
        let mut text = serde_json::to_vec_pretty(self).expect("a status has text for names");
        text.push(b'\n');
        text
    }

    /// For people.
    pub fn to_text(&self) -> String {
        let mut lines = Vec::new();
        match &self.generation {
            Some(now) => lines.push(format!(
                "generation {} ({}), from {}{}",
                now.number,
                short(&now.hash),
                now.source,
                if self.on_trial { ", on trial" } else { "" }
            )),
            None => lines.push("no generation is in force".to_owned()),
        }
        if let Some(before) = &self.previous {
            lines.push(format!("before it: generation {} ({})", before.number, short(&before.hash)));
        }
        if let Some(effect) = self.effect {
            lines.push(format!("effect: {effect}"));
        }
        lines.extend(self.changed.iter().map(|change| format!("changed: {} ({})", change.path, change.effect)));
        lines.extend(self.pending.iter().map(|ask| format!("pending: {ask}")));
        lines.extend(self.warnings.iter().map(|warning| format!("warning: {warning}")));
        lines.extend(self.failures.iter().map(|failure| format!("failed: {failure}")));
        lines.extend(self.refused.iter().map(|gone| format!("came back: generation {}: {}", gone.number, gone.reason)));
        lines.extend(self.next.iter().map(|next| format!("next: {next}")));
        lines.push(String::new());
        lines.join("\n")
    }
}

/// As much of a hash as people compare.
pub(crate) fn short(hash: &str) -> &str {
    hash.get(..12).unwrap_or(hash)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_says_who_is_in_force_and_what_comes_back_if_it_fails() {
        let generation = |number: u64| Generation {
            number,
            hash: format!("h{number}"),
            folder: number.to_string(),
            source: "imds".to_owned(),
        };
        let mut state = State::default();
        state.tried(generation(1));
        assert_eq!(Status::of("boot", Outcome::Applied, &state).previous, None);
        state.confirmed();
        state.tried(generation(2));
        let mut status = Status::of("apply", Outcome::Applied, &state);
        status.next = Some("wait".to_owned());
        assert_eq!(
            status.to_text(),
            "generation 2 (h2), from imds, on trial\nbefore it: generation 1 (h1)\nnext: wait\n"
        );
        assert_eq!(serde_json::from_slice::<Status>(&status.to_json()).expect("json"), status);
    }
}
