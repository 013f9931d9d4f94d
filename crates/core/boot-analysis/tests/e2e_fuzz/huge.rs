//! Inputs that are larger than those of any real machine.

use std::fmt::Write as _;

use kiln_boot_analysis::explain::explain;
use kiln_boot_analysis::lint::{File, Pulls, lint};
use kiln_boot_analysis::{Change, Usec, budget, capture, chain_text, plot};

const UNITS: usize = 100_000;
const LINE: usize = 10 << 20;

/// A capture in which each unit waits for the previous one.
fn deep_capture() -> String {
    let mut text = "UserspaceTimestampMonotonic=1000\nFinishTimestampMonotonic=900000000000\n".to_owned();
    for index in 0..UNITS {
        let began = 2_000 + index * 700_000;
        let _ = write!(
            text,
            "\nId=u{index}.service\nAfter=u{}.service\nInactiveExitTimestampMonotonic={began}\nActiveEnterTimestampMonotonic={}\n",
            index.wrapping_sub(1),
            began + 600_000
        );
    }
    text
}

#[test]
fn a_chain_of_a_hundred_thousand_units_is_explained_drawn_and_printed() {
    let boot = capture::parse(&deep_capture()).expect("a capture");
    let last = format!("u{}.service", UNITS - 1);
    let explained = explain(&boot, &last).expect("an explanation");
    assert_eq!(explained.hops.len(), UNITS);
    assert_eq!(explained.findings[0].saves, Usec(600_000));
    let gone =
        kiln_boot_analysis::what_if(&boot, &last, &[Change::WithoutUnit("u5.service".into())]).expect("an answer");
    assert!(gone.saves > Usec::ZERO);
    let picture = plot::plot(&boot, &explained);
    assert!(picture.len() < 4 << 20, "{} bytes", picture.len());
    // Each line is indented deeper than the one before it: the whole output would be 20 GB.
    let printed = kiln_boot_analysis::chain(&boot, &last, Usec::ZERO).expect("a finished boot");
    assert!(printed.len() < 100 << 20 && printed.ends_with("...\n"), "{} bytes", printed.len());
    assert_eq!(kiln_boot_analysis::blame(&boot).expect("a finished boot").lines().count(), UNITS);
}

#[test]
fn a_line_of_ten_megabytes_is_parsed_or_rejected_by_every_parser() {
    let long = "x".repeat(LINE);
    let unit = "Id=a.service\nInactiveExitTimestampMonotonic=5\nActiveEnterTimestampMonotonic=9\n";
    let manager = "UserspaceTimestampMonotonic=1\nFinishTimestampMonotonic=90\n";
    for line in [format!("Description={long}"), format!("After={long}"), format!("{long}={long}"), long.clone()] {
        let boot = capture::parse(&format!("{manager}\n{unit}{line}\n")).expect("a capture");
        assert!(explain(&boot, "a.service").is_ok());
    }
    let many = "y.service ".repeat(LINE / 10);
    let boot = capture::parse(&format!("{manager}\n{unit}After={many}\n")).expect("a capture");
    assert_eq!(boot.unit("a.service").expect("the unit").after.len(), LINE / 10);
    let bad = capture::parse(&format!("{manager}\n{unit}InactiveExitTimestampMonotonic={}\n", "9".repeat(LINE)));
    assert!(bad.is_err_and(|error| error.to_string().len() < 200), "the value in the message is cut");
    let named = format!("Id={long}.service\nInactiveExitTimestampMonotonic=5\nActiveEnterTimestampMonotonic=9\n");
    let boot = capture::parse(&format!("{manager}\n{named}")).expect("a capture");
    let explained = explain(&boot, &format!("{long}.service")).expect("an explanation");
    assert!(!plot::plot(&boot, &explained).is_empty());

    assert!(chain_text::parse(&format!("a.service @1s\n└─{long}\n")).is_err_and(|error| error.to_string().len() < 600));
    assert!(chain_text::parse(&format!("a.service @{}s\n", "9".repeat(LINE))).is_err());
    assert!(chain_text::parse(&format!("{}a.service @1s\n", " ".repeat(LINE))).is_err());
    assert!(budget::parse(&format!("boot < {long}\n")).is_err_and(|error| error.to_string().len() < 600));
    let file = File { unit: "a.service".into(), path: "/a".into(), text: format!("After={long}.service\n{long}\n") };
    assert_eq!(lint(&[file], &Pulls::new()).len(), 1);
}
