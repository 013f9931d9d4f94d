//! The status as text.

use std::fmt;

use super::{AgeCheck, Model, Runs, Status, VersionRow};
use crate::latest::NewNodes;
use crate::span::format_span;

impl VersionRow {
    /// The headings of [`cells`](Self::cells).
    pub const HEADINGS: [&'static str; 8] =
        ["version", "state", "replicated", "age", "instances", "kernel", "kubelet", "built from"];

    /// The cells of a table.
    pub fn cells(&self) -> [String; 8] {
        let or_dash = |text: Option<&String>| text.cloned().unwrap_or_else(|| "-".to_owned());
        [
            self.number.to_string(),
            self.state_text(),
            self.replicated_text(),
            self.age.map_or_else(|| "-".to_owned(), format_span),
            self.instances.to_string(),
            or_dash(self.provenance.kernel.as_ref()),
            or_dash(self.provenance.kubelet.as_ref()),
            or_dash(self.provenance.built_from.as_ref()),
        ]
    }

    fn state_text(&self) -> String {
        let marks = [(self.current, "new nodes get it"), (self.excluded, "excluded"), (self.rejected, "rejected")];
        let marks = marks.iter().filter(|(is_so, _)| *is_so).map(|(_, mark)| *mark);
        std::iter::once(self.state.to_lowercase().as_str()).chain(marks).collect::<Vec<_>>().join(", ")
    }

    fn replicated_text(&self) -> String {
        let regions: Vec<String> =
            self.replication.iter().map(|(region, percent)| format!("{region} {percent} %")).collect();
        if regions.is_empty() { "nowhere".to_owned() } else { regions.join(", ") }
    }
}

impl fmt::Display for VersionRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; replicated: {}", self.number, self.state_text(), self.replicated_text())?;
        if let Some(age) = self.age {
            write!(f, "; {} old", format_span(age))?;
        }
        if let Some(from) = &self.provenance.built_from {
            write!(f, "; built from {from}")?;
        }
        write!(f, "; {} instances", self.instances)
    }
}

impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotYet => f.write_str("model: the original recipe; no version of the image definition was used yet"),
            Self::Definition => f.write_str("model: the latest version of the image definition"),
            Self::Pinned { version } => write!(f, "model: version {version}"),
            Self::Original => f.write_str("model: the original recipe, restored by a rollback"),
            Self::ChangedExternally { now, was } => {
                write!(f, "model: changed by another program to {now}")?;
                if let Some(was) = was {
                    write!(f, ", after a run had set it to {was}")?;
                }
                f.write_str("; configure that program to ignore the image, then run `kiln prototype update`")
            }
        }
    }
}

impl fmt::Display for NewNodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Latest(version) => write!(f, "new nodes get {version} (latest)"),
            Self::Pinned(version) => write!(f, "new nodes get {version} (pinned)"),
            Self::NothingUsable => f.write_str(
                "new nodes cannot be created: no version of the image definition is usable; \
                 include one with `kiln prototype rollback --to VERSION`",
            ),
            Self::OtherImage(image) => write!(f, "new nodes get {image}"),
        }
    }
}

impl fmt::Display for Runs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} instances run {}", self.instances, self.image)?;
        if self.rejected { f.write_str(", which was rejected; `kiln prototype refresh` replaces them") } else { Ok(()) }
    }
}

impl fmt::Display for AgeCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fresh => f.write_str("age: within the limit"),
            Self::TooOld { age, most } => {
                write!(f, "age: {}, more than {}; run `kiln prototype update`", format_span(*age), format_span(*most))
            }
            Self::Unknown => f.write_str("age: unknown; run `kiln prototype update`"),
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "pool: {} in {}", self.pool, self.region)?;
        writeln!(
            f,
            "definition: {}{}",
            self.definition,
            if self.definition_exists { "" } else { " (does not exist yet)" }
        )?;
        match self.age {
            Some(age) => writeln!(f, "{}, {} old", self.new_nodes, format_span(age))?,
            None => writeln!(f, "{}", self.new_nodes)?,
        }
        writeln!(f, "{}", self.model)?;
        if let Some(pause) = &self.pause {
            writeln!(f, "{pause}")?;
        }
        self.versions.iter().try_for_each(|version| writeln!(f, "{version}"))?;
        self.runs.iter().try_for_each(|runs| writeln!(f, "{runs}"))
    }
}
