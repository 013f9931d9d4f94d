//! What came of the story, for people and for programs.

use std::io::Write;

use comfy_table::{Table, presets};

use super::story::Outcome;
use crate::failure::Failure;

pub(super) fn table(outcome: &Outcome) -> Result<(), Failure> {
    let mut nodes = Table::new();
    nodes.load_style(presets::NOTHING).set_header(["NODE", "IMAGE", "POWER"]);
    for node in &outcome.nodes {
        nodes.add_row([&node.name, &node.image, &node.power]);
    }
    let whole: f64 = outcome.steps.iter().map(|step| step.seconds).sum();
    let text = format!(
        "\n{}\n\nA new node took {} by the old recipe and takes {} from the image.\nAzure's own work for all of this is {}.\n",
        nodes.to_string().lines().map(str::trim_end).collect::<Vec<_>>().join("\n"),
        duration(outcome.before),
        duration(outcome.after),
        duration(whole),
    );
    print(&text)
}

pub(super) fn json(outcome: &Outcome) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(outcome).map_err(Failure::failed)?;
    print(&format!("{text}\n"))
}

fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(|error| Failure::failed(format_args!("standard output: {error}")))
}

/// Seconds as people say them.
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
    fn durations_read_as_people_say_them() {
        assert_eq!(
            ["0 s", "59 s", "3 m 03 s", "1 h 44 m"],
            [duration(0.2), duration(59.4), duration(183.0), duration(6_266.0)]
        );
    }
}
