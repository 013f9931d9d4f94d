//! Fuzzing of the parsers and of everything computed from their results. The inputs are mutations of valid ones. Seeds are fixed, so a failure
//! is reproducible.
//!
//! `KILN_FUZZ_ROUNDS` sets the number of rounds per parser.

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

/// Takes a few seconds for all parsers.
const ROUNDS: u64 = 400;
/// Takes minutes.
#[cfg(feature = "tier2")]
const MANY: u64 = 20_000;

fn rounds() -> u64 {
    std::env::var("KILN_FUZZ_ROUNDS").ok().map_or(ROUNDS, |rounds| rounds.parse().expect("a number of rounds"))
}

/// Runs one parser on mutated inputs and reports the first panic.
fn survive(name: &str, seeds: std::ops::Range<u64>, corpus: &[String], parse: impl Fn(&str)) -> Result<(), String> {
    for seed in seeds {
        let text = mutated(&mut Dice::new(seed), corpus);
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| parse(&text))) {
            let message = panic.downcast_ref::<String>().map(String::as_str);
            let message = message.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or_default();
            let shown: String = text.chars().take(2_000).collect();
            return Err(format!("{name}, seed {seed}: {message}\n{shown}"));
        }
    }
    Ok(())
}

fn check_capture(text: &str) {
    if let Ok(boot) = capture::parse(text) {
        analyse(&boot);
    }
}

/// The two files of a capture folder, which `kiln` joins with an empty line.
fn check_folder(text: &str) {
    let half = text.floor_char_boundary(text.len() / 2);
    let (manager, units) = text.split_once("\n\n").unwrap_or_else(|| text.split_at(half));
    check_capture(&format!("{manager}\n\n{units}"));
    check_capture(&format!("{units}\n\n{manager}"));
}

fn check_chain(text: &str) {
    if let Ok(boot) = chain_text::parse(text) {
        assert!(boot.pasted_root().is_some_and(|root| boot.unit(root).is_some()));
        analyse(&boot);
    }
}

fn check_budget(text: &str) {
    if let Ok(limits) = budget::parse(text) {
        let boot = capture::parse(&corpus::captures()[1]).expect("a capture");
        assert_eq!(budget::judge(&boot, &limits).len(), limits.len());
    }
}

fn check_unit_files(text: &str) {
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

/// Computes everything for some units of a boot.
fn analyse(boot: &Boot) {
    let _ = (kiln_boot_analysis::blame(boot), kiln_boot_analysis::time(boot), boot.goal());
    let known = ["kubelet.service", "multi-user.target", "graphical.target"];
    let some: Vec<&str> = boot.units.keys().take(3).map(kiln_boot_analysis::UnitName::as_str).chain(known).collect();
    let mut before: Option<Explanation> = None;
    for unit in some {
        let _ = kiln_boot_analysis::chain(boot, unit, Usec(1_000_000));
        let Ok(explained) = explain(boot, unit) else { continue };
        assert_sound(boot, &explained);
        let svg = plot::plot(boot, &explained);
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"));
        let odd = svg.lines().find(|line| ["=\"NaN", "=\"inf", "=\"-"].iter().any(|odd| line.contains(odd)));
        assert_eq!(odd, None, "numbers that browsers reject");
        let hop = explained.hops[explained.hops.len() / 2].unit.clone();
        let _ = kiln_boot_analysis::what_if(boot, unit, &[Change::WithoutUnit(hop)]);
        if let Some(before) = before.replace(explained.clone()) {
            let _ = compare::compare(&before, &explained);
        }
    }
}

/// Invariants of every explanation, even for inconsistent boots.
fn assert_sound(boot: &Boot, explained: &Explanation) {
    assert_eq!(explained.began, explained.hops[0].began);
    assert!(explained.findings.is_sorted_by_key(|finding| std::cmp::Reverse(finding.saves)));
    let total: u128 = explained.hops.iter().map(|hop| u128::from(hop.waited.0)).sum::<u128>()
        + explained.hops[1..].iter().filter_map(|hop| hop.ran).map(|ran| u128::from(ran.0)).sum::<u128>();
    assert_eq!(total, u128::from(explained.began.0), "waits and run times add up to the start");
    for finding in explained.findings.iter().filter(|finding| finding.unit != explained.unit) {
        assert!(finding.saves <= explained.began, "{finding:?} saves more than the whole boot");
    }
    let json = serde_json::to_string(explained).expect("JSON");
    assert!(json.contains(&serde_json::to_string(&explained.unit).expect("JSON")) && !boot.units.is_empty());
}

/// Runs all parsers in parallel.
fn fuzz_all(seeds: &std::ops::Range<u64>) -> Vec<String> {
    type Parser = (&'static str, Vec<String>, fn(&str));
    let parsers: [Parser; 5] = [
        ("capture", corpus::captures(), check_capture),
        ("folder", corpus::captures(), check_folder),
        ("chain", corpus::chains(), check_chain),
        ("budget", corpus::budgets(), check_budget),
        ("unit files", corpus::unit_files(), check_unit_files),
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
fn parsers_and_analysis_survive_mutated_inputs() {
    let failed = fuzz_all(&(0..rounds()));
    assert!(failed.is_empty(), "{}", failed.join("\n\n"));
}

#[cfg(feature = "tier2")]
#[test]
fn parsers_and_analysis_survive_a_long_run() {
    let failed = fuzz_all(&(ROUNDS..MANY));
    assert!(failed.is_empty(), "{}", failed.join("\n\n"));
}

/// Checks the fuzzer: parsers with common mistakes must fail, and a fair share of the inputs must be accepted.
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
    assert!((20..95).contains(&share), "{share} % of the inputs are accepted");
}
