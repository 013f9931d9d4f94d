//! How clones join the cluster, and what on a disk runs a pool's recipe.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// How the clones of a donor join.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum JoinMode {
    /// With what is in the image: a client certificate that all nodes share, or an exec plugin. The pool's model needs neither custom data
    /// nor a script.
    #[default]
    Certificate,
    /// By running the pool's recipe again, with its current token. The pool's model keeps custom data and scripts.
    Recipe,
}

impl JoinMode {
    /// All modes.
    pub const ALL: [Self; 2] = [Self::Certificate, Self::Recipe];

    /// The name, as in commands and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Certificate => "certificate",
            Self::Recipe => "recipe",
        }
    }
}

impl fmt::Display for JoinMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The text is not a [`JoinMode`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown join mode `{input}`; expected `certificate` or `recipe`")]
pub struct BadJoinMode {
    pub input: String,
}

impl FromStr for JoinMode {
    type Err = BadJoinMode;

    fn from_str(input: &str) -> Result<Self, BadJoinMode> {
        let mode = Self::ALL.into_iter().find(|mode| mode.name() == input);
        mode.ok_or_else(|| BadJoinMode { input: input.to_owned() })
    }
}

/// A program on a disk that runs the pool's recipe on a new machine, and ran it on this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RecipeRunner {
    /// cloud-init, which processes custom data.
    CloudInit,
    /// Azure's agent, which runs the script extension.
    ScriptExtension,
    /// kilnd, with a NodeConfig whose join credential is in the custom data.
    Kilnd,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mode_is_written_in_the_same_way_everywhere() {
        for mode in JoinMode::ALL {
            assert_eq!(mode.to_string().parse(), Ok(mode));
            assert_eq!(serde_json::to_value(mode).expect("json"), mode.name());
        }
        let error = "token".parse::<JoinMode>().expect_err("unknown");
        assert_eq!(error.to_string(), "unknown join mode `token`; expected `certificate` or `recipe`");
    }
}
