//! Text output of the demo.

use comfy_table::{Table, presets};

use super::outcome::Outcome;

pub(super) fn text(outcome: &Outcome) -> String {
    let (before, after) = (&outcome.before, &outcome.after);
    let mut boots = Table::new();
    boots.load_style(presets::NOTHING).set_header(["NEW NODE", "OLD RECIPE", "FROM THE IMAGE"]);
    let stage = |boot: &super::outcome::Boot, name: &str| {
        boot.stages.iter().find(|(stage, _)| stage == name).map_or("-".to_owned(), |(_, seconds)| duration(*seconds))
    };
    for (name, _) in &before.stages {
        boots.add_row([name.clone(), stage(before, name), stage(after, name)]);
    }
    boots.add_row(["total until Ready".to_owned(), duration(before.seconds), duration(after.seconds)]);
    boots.add_row([
        "outdated packages".to_owned(),
        before.stale_packages.to_string(),
        after.stale_packages.to_string(),
    ]);
    boots.add_row(["images to pull".to_owned(), before.images_to_pull.to_string(), after.images_to_pull.to_string()]);
    boots.add_row(["kernel version".to_owned(), before.kernel.clone(), after.kernel.clone()]);
    let mut nodes = Table::new();
    nodes.load_style(presets::NOTHING).set_header(["NODE", "IMAGE", "KERNEL", "STATE"]);
    for node in &outcome.nodes {
        nodes.add_row([&node.name, &node.image, &node.kernel, &node.state]);
    }
    format!("\n{}\n\n{}\n", trimmed(&boots), trimmed(&nodes))
}

fn trimmed(table: &Table) -> String {
    table.to_string().lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

/// Seconds in a readable form.
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
    fn durations_are_readable() {
        assert_eq!(
            ["0 s", "59 s", "3 m 03 s", "1 h 44 m"],
            [duration(0.2), duration(59.4), duration(183.0), duration(6_266.0)]
        );
    }
}
