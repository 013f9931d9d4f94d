//! Parsers and everything behind them, on inputs that are nearly right. The same rounds everywhere: a seed that fails fails again.
//!
//! `KILN_FUZZ_ROUNDS` asks for more rounds per parser.

mod corpus;
#[path = "../support/dice.rs"]
mod dice;
mod huge;
mod mutate;

use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};

use dice::Dice;
use kiln_boot_analysis::explain::{Explanation, explain};
use kiln_boot_analysis::lint::{File, Pulls, lint};
use kiln_boot_analysis::{Boot, Change, Usec, budget, capture, chain_text, compare, plot};
use mutate::mutated;

/// A few seconds for all parsers together.
const ROUNDS: u64 = 400;
/// The long run: minutes.
#[cfg(feature = "tier2")]
const MANY: u64 = 20_000;

fn rounds() -> u64 {
    std::env::var("KILN_FUZZ_ROUNDS").ok().map_or(ROUNDS, |rounds| rounds.parse().expect("a number of rounds"))
}

/// Tries rounds of one parser. The first that panics is named.
fn survive(name: &str, seeds: std::ops::Range<u64>, corpus: &[String], parse: impl Fn(&str)) -> Result<(), String> {
    for seed in seeds {
        let text = mutated(&mut Dice::new(seed), corpus);
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| parse(&text))) {
            let said = panic.downcast_ref::<String>().map(String::as_str);
            let said = said.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or_default();
            let shown: String = text.chars().take(2_000).collect();
            return Err(format!("{name}, seed {seed}: {said}\n{shown}"));
        }
    }
    Ok(())
}

fn captured(text: &str) {
    if let Ok(boot) = capture::parse(text) {
        analysed(&boot);
    }
}

/// The two files of a folder: the program reads them as one, with an empty line between them.
fn folder(text: &str) {
    let half = text.floor_char_boundary(text.len() / 2);
    let (manager, units) = text.split_once("\n\n").unwrap_or_else(|| text.split_at(half));
    captured(&format!("{manager}\n\n{units}"));
    captured(&format!("{units}\n\n{manager}"));
}

fn pasted(text: &str) {
    if let Ok(boot) = chain_text::parse(text) {
        assert!(boot.pasted_root().is_some_and(|root| boot.unit(root).is_some()));
        analysed(&boot);
    }
}

fn budgeted(text: &str) {
    if let Ok(limits) = budget::parse(text) {
        let boot = capture::parse(&corpus::captures()[1]).expect("a capture");
        assert_eq!(budget::judge(&boot, &limits).len(), limits.len());
    }
}

fn linted(text: &str) {
    let mut files: Vec<File> =
        corpus::unit_files().into_iter().enumerate().map(|(index, text)| file(index, text)).collect();
    files.push(file(0, text.to_owned()));
    files.push(file(9, text.to_owned()));
    for problem in lint(&files, &Pulls::from([("multi-user.target".to_owned(), "u0.service".to_owned())])) {
        assert!(problem.line > 0 && !problem.message.is_empty());
    }
}

fn file(index: usize, text: String) -> File {
    let unit =
        ["u0.service", "a.service", "b.target", "multi-user.target"].get(index).copied().unwrap_or("new.service");
    File { unit: unit.to_owned(), path: format!("/u/{unit}"), text }
}

/// Everything that is computed from a boot, on some of its units.
fn analysed(boot: &Boot) {
    let _ = (kiln_boot_analysis::blame(boot), kiln_boot_analysis::time(boot), boot.goal());
    let known = ["kubelet.service", "multi-user.target", "graphical.target"];
    let some: Vec<&str> = boot.units.keys().take(3).map(kiln_boot_analysis::UnitName::as_str).chain(known).collect();
    let mut before: Option<Explanation> = None;
    for unit in some {
        let _ = kiln_boot_analysis::chain(boot, unit, Usec(1_000_000));
        let Ok(explained) = explain(boot, unit) else { continue };
        sound(boot, &explained);
        let svg = plot::plot(boot, &explained);
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
        let odd = svg.lines().find(|line| ["=\"NaN", "=\"inf", "=\"-"].iter().any(|odd| line.contains(odd)));
        assert_eq!(odd, None, "numbers that no browser takes");
        let hop = explained.hops[explained.hops.len() / 2].unit.clone();
        let _ = kiln_boot_analysis::what_if(boot, unit, &[Change::WithoutUnit(hop)]);
        if let Some(before) = before.replace(explained.clone()) {
            let _ = compare::compare(&before, &explained);
        }
    }
}

/// What holds for every boot, however little sense it makes.
fn sound(boot: &Boot, explained: &Explanation) {
    assert_eq!(explained.began, explained.hops[0].began);
    assert!(explained.findings.is_sorted_by_key(|finding| std::cmp::Reverse(finding.saves)));
    let total: u128 = explained.hops.iter().map(|hop| u128::from(hop.waited.0)).sum::<u128>()
        + explained.hops[1..].iter().filter_map(|hop| hop.ran).map(|ran| u128::from(ran.0)).sum::<u128>();
    assert_eq!(total, u128::from(explained.began.0), "waits and runs add up to the start");
    for finding in explained.findings.iter().filter(|finding| finding.unit != explained.unit) {
        assert!(finding.saves <= explained.began, "{finding:?} saves more than there was");
    }
    let json = serde_json::to_string(explained).expect("JSON");
    assert!(json.contains(&serde_json::to_string(&explained.unit).expect("JSON")) && !boot.units.is_empty());
}

/// All parsers, at once.
fn all(seeds: &std::ops::Range<u64>) -> Vec<String> {
    type Parser = (&'static str, Vec<String>, fn(&str));
    let parsers: [Parser; 5] = [
        ("capture", corpus::captures(), captured),
        ("folder", corpus::captures(), folder),
        ("chain", corpus::chains(), pasted),
        ("budget", corpus::budgets(), budgeted),
        ("unit files", corpus::unit_files(), linted),
    ];
    std::thread::scope(|scope| {
        let running: Vec<_> = parsers
            .iter()
            .map(|(name, corpus, parse)| scope.spawn(move || survive(name, seeds.clone(), corpus, parse)))
            .collect();
        running.into_iter().filter_map(|one| one.join().expect("a thread").err()).collect()
    })
}

#[test]
fn parsers_and_what_is_behind_them_survive_what_is_nearly_right() {
    let failed = all(&(0..rounds()));
    assert!(failed.is_empty(), "{}", failed.join("\n\n"));
}

#[cfg(feature = "tier2")]
#[test]
fn parsers_survive_minutes_of_it() {
    let failed = all(&(ROUNDS..MANY));
    assert!(failed.is_empty(), "{}", failed.join("\n\n"));
}

/// The rounds are worth something: parsers with a usual mistake do not survive them, and most inputs get past the first line.
#[test]
fn a_careless_parser_does_not_survive() {
    let rounds = 0..ROUNDS;
    let number = |text: &str| {
        for line in text.lines().filter_map(|line| line.strip_prefix("InactiveExitTimestampMonotonic=")) {
            assert!(line.trim().parse::<u64>().is_ok(), "no number");
        }
    };
    assert!(survive("numbers", rounds.clone(), &corpus::captures(), number).is_err());
    let quote = |text: &str| text.split('"').skip(1).step_by(2).for_each(|name| assert!(!name.contains('\n'), "open"));
    assert!(survive("quotes", rounds.clone(), &corpus::captures(), quote).is_err());
    let sum = |text: &str| {
        let times = text.lines().filter_map(|line| line.split_once("Monotonic=")?.1.trim().parse::<u64>().ok());
        times.fold(0u64, |sum, time| sum.checked_add(time).expect("no overflow"));
    };
    assert!(survive("sums", rounds.clone(), &corpus::captures(), sum).is_err());
    let mut read = String::new();
    for seed in rounds {
        let text = mutated(&mut Dice::new(seed), &corpus::captures());
        let _ = write!(read, "{}", u8::from(capture::parse(&text).is_ok()));
    }
    let share = read.matches('1').count() * 100 / read.len();
    assert!((20..95).contains(&share), "{share} in 100 are read: neither all refused nor all untouched");
}
