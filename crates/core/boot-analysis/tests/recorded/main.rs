//! A recorded boot of a real machine, and the output of systemd-analyze on that machine.

use std::path::Path;

use kiln_boot_analysis::explain::{FindingKind, explain};
use kiln_boot_analysis::{Boot, Usec, blame, capture, chain, plot, time};

fn boot() -> Boot {
    let text = format!("{}\n{}", include_str!("manager.txt"), include_str!("units.txt"));
    capture::parse(&text).expect("a capture")
}

#[test]
fn chain_time_and_blame_equal_the_recorded_output() {
    let boot = boot();
    let text = chain(&boot, "graphical.target", Usec::ZERO).expect("a finished boot");
    assert_eq!(text, include_str!("critical-chain.txt"));
    assert_eq!(time(&boot).expect("finished"), include_str!("time.txt"));
    // `blame` was recorded at a different time than the units, so only units in both are compared.
    let blamed = blame(&boot).expect("finished");
    let recorded = |line: &str| line.split_whitespace().nth(1).is_some_and(|unit| boot.started(unit).is_some());
    let printed = include_str!("blame.txt");
    let both: Vec<&str> = printed.lines().filter(|line| recorded(line)).map(str::trim).collect();
    assert!(both.len() > 20, "{both:?}");
    for line in both {
        assert!(blamed.lines().any(|blamed| blamed.trim() == line), "{line}");
    }
}

/// `KILN_BLESS=1` writes the picture.
#[test]
fn the_picture_in_the_guide_is_current() {
    let boot = boot();
    let drawn = plot::plot(&boot, &explain(&boot, "multi-user.target").expect("an explanation"));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/images/boot.svg");
    if std::env::var_os("KILN_BLESS").is_some() {
        std::fs::write(&path, &drawn).expect("write the picture");
    }
    let have = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(have == drawn, "{} is out of date: run the test with KILN_BLESS=1 and check the picture", path.display());
}

#[test]
fn the_chain_of_a_recorded_boot_adds_up_and_starts_with_pid_1() {
    let explained = explain(&boot(), "multi-user.target").expect("an explanation");
    let runs: Usec = explained.hops[1..].iter().filter_map(|hop| hop.ran).sum();
    let waits: Usec = explained.hops.iter().map(|hop| hop.waited).sum();
    assert_eq!(runs + waits, explained.began);
    assert_eq!(explained.began.to_string(), "33.966s");
    let manager = explained.findings.iter().find(|finding| finding.kind == FindingKind::Manager).expect("PID 1's time");
    assert_eq!(manager.saves.to_string(), "4.202s");
    // e2scrub_reap.service ran until then, ended, and was unloaded.
    let message = "multi-user.target waited 2.271s; the cause is unknown: the capture does not record what happened to rescue.target, e2scrub_reap.service, rescue.service";
    assert!(explained.findings.iter().any(|finding| finding.message == message), "{:?}", explained.findings);
}

mod recordings {
    use testkit::recordings::boot_samples;

    #[test]
    fn the_files_of_these_tests_are_the_recorded_ones() {
        let files = [
            ("blame.txt", include_str!("blame.txt")),
            ("critical-chain.txt", include_str!("critical-chain.txt")),
            ("manager.txt", include_str!("manager.txt")),
            ("time.txt", include_str!("time.txt")),
            ("units.txt", include_str!("units.txt")),
        ];
        for (name, copy) in files {
            let recorded = std::fs::read_to_string(boot_samples().join(name)).expect("a recorded file");
            assert!(recorded == copy, "{name} differs");
        }
    }
}
