//! Text output of the boot commands.

use std::fmt::Write as _;

use comfy_table::{Table, presets};
use kiln_boot_analysis::budget::{Judged, Measure};
use kiln_boot_analysis::compare::Comparison;
use kiln_boot_analysis::explain::{Explanation, Hop, Wait};
use kiln_boot_analysis::lint::Problem;
use kiln_boot_analysis::{Usec, WhatIf};

pub(super) fn explanation(explained: &Explanation) -> String {
    let mut text = format!("{} started {} after PID 1", explained.unit, explained.began);
    if explained.preprovisioning > Usec::ZERO {
        let own = explained.began - explained.preprovisioning;
        let _ = write!(text, ": {own} of boot and {} of preprovisioning pause", explained.preprovisioning);
    }
    if let Some(executed) = explained.executed {
        let _ = write!(text, "; its main process was executed at {executed}");
    }
    text.push_str("\n\n");
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(["STARTED", "TOOK", "WAITED", "UNIT", "REASON FOR THE WAIT"]);
    for hop in &explained.hops {
        let reason = if hop.wait == Wait::Queue { String::new() } else { hop.wait.to_string() };
        table.add_row([
            hop.began.to_string(),
            hop.ran.map_or("unknown".to_owned(), span),
            span(hop.waited),
            hop.unit.to_string(),
            reason,
        ]);
    }
    text.push_str(&lines(&table));
    if explained.findings.is_empty() {
        text.push_str("\nNo findings: nothing on this chain would save half a second.\n");
        return text;
    }
    text.push_str("\nFindings, by the time they would save:\n");
    for finding in &explained.findings {
        let saves = if finding.saves > Usec::ZERO { finding.saves.to_string() } else { "-".to_owned() };
        let _ = writeln!(text, "{saves:>12}  {}\n{:>12}  {}", finding.message, "", finding.advice);
    }
    text
}

pub(super) fn what_if(answer: &WhatIf) -> String {
    format!(
        "{} started at {} and would have started at {}, {} earlier\n",
        answer.unit, answer.started, answer.would_start, answer.saves
    )
}

pub(super) fn comparison(compared: &Comparison) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(["CHANGE", "FIRST", "SECOND", "UNIT"]);
    let spent = |hop: &Option<Hop>| hop.as_ref().map_or("-".to_owned(), |hop| hop.spent().to_string());
    for row in compared.rows.iter().filter(|row| row.change != 0) {
        let sign = if row.change < 0 { '-' } else { '+' };
        let change = format!("{sign}{}", Usec(row.change.unsigned_abs()));
        table.add_row([change, spent(&row.first), spent(&row.second), row.unit.to_string()]);
    }
    format!(
        "{} started at {} in the first boot and at {} in the second\n\n{}",
        compared.unit,
        compared.first,
        compared.second,
        lines(&table)
    )
}

pub(super) fn budget(judged: &[Judged]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(["OK", "TOOK", "LIMIT", "MEASURE"]);
    for one in judged {
        let measure = match &one.limit.measure {
            Measure::Boot => "boot".to_owned(),
            Measure::Start(unit) => format!("{unit} start"),
            Measure::Time(unit) => format!("{unit} time"),
        };
        let took = one.took.map_or("unknown".to_owned(), |took| took.to_string());
        table.add_row([if one.kept { "yes" } else { "no" }.to_owned(), took, one.limit.limit.to_string(), measure]);
    }
    lines(&table)
}

pub(super) fn problems(problems: &[Problem]) -> String {
    problems.iter().fold(String::new(), |mut text, problem| {
        let _ = writeln!(text, "{}:{}: {}: {}", problem.path, problem.line, problem.rule, problem.message);
        text
    })
}

fn span(span: Usec) -> String {
    if span == Usec::ZERO { String::new() } else { span.to_string() }
}

fn lines(table: &Table) -> String {
    table.to_string().lines().fold(String::new(), |mut text, line| {
        let _ = writeln!(text, "{}", line.trim_end());
        text
    })
}
