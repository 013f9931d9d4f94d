//! The result of the demo on standard output.

use comfy_table::{Table, presets};

use super::outcome::Outcome;
use crate::answer::print;
use crate::failure::Failure;

pub(super) fn table(outcome: &Outcome) -> Result<(), Failure> {
    let (before, after) = (&outcome.before, &outcome.after);
    let mut boots = Table::new();
    boots.load_style(presets::NOTHING).set_header(["A NEW NODE", "OLD RECIPE", "FROM THE IMAGE"]);
    let stage = |of: &super::outcome::Boot, name: &str| {
        of.stages.iter().find(|(stage, _)| stage == name).map_or("-".to_owned(), |(_, seconds)| duration(*seconds))
    };
    for (name, _) in &before.stages {
        boots.add_row([name.clone(), stage(before, name), stage(after, name)]);
    }
    boots.add_row(["Ready after".to_owned(), duration(before.seconds), duration(after.seconds)]);
    boots.add_row(["packages behind".to_owned(), before.stale_packages.to_string(), after.stale_packages.to_string()]);
    boots.add_row(["images to pull".to_owned(), before.images_to_pull.to_string(), after.images_to_pull.to_string()]);
    boots.add_row(["kernel".to_owned(), before.kernel.clone(), after.kernel.clone()]);
    let mut nodes = Table::new();
    nodes.load_style(presets::NOTHING).set_header(["NODE", "IMAGE", "KERNEL", "STATE"]);
    for node in &outcome.nodes {
        nodes.add_row([&node.name, &node.image, &node.kernel, &node.state]);
    }
    print(&format!("\n{}\n\n{}\n", trimmed(&boots), trimmed(&nodes)))
}

pub(super) fn json(outcome: &Outcome) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(outcome).map_err(Failure::failed)?;
    print(&format!("{text}\n"))
}

fn trimmed(table: &Table) -> String {
    table.to_string().lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

/// Formats seconds for people.
pub(super) fn duration(seconds: f64) -> String {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a time span of at most days")]
    let whole = seconds.max(0.0).round() as u64;
    match (whole / 3_600, whole / 60 % 60, whole % 60) {
        (0, 0, seconds) => format!("{seconds} s"),
        (0, minutes, seconds) => format!("{minutes} m {seconds:02} s"),
        (hours, minutes, _) => format!("{hours} h {minutes:02} m"),
    }
}

#[cfg(test)]
mod tests {
    use super::duration;

    #[test]
    fn durations_are_formatted_for_people() {
        assert_eq!(
            ["0 s", "59 s", "3 m 03 s", "1 h 44 m"],
            [duration(0.2), duration(59.4), duration(183.0), duration(6_266.0)]
        );
    }
}
