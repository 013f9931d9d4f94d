//! A recorded boot of a real machine, and what systemd-analyze printed on it.

use std::path::PathBuf;

use kiln_boot::{Usec, blame, capture, chain, time};

/// The folder with the recording, where it is present.
fn samples() -> Option<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/boot-samples");
    folder.is_dir().then_some(folder)
}

#[test]
fn the_chain_of_a_recorded_boot_is_the_one_that_was_printed_on_it() {
    let Some(folder) = samples() else { return };
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).expect("a recorded file");
    let boot = capture::parse(&format!("{}\n{}", read("manager.txt"), read("units.txt"))).expect("a capture");
    let text = chain(&boot, "graphical.target", Usec::ZERO).expect("a finished boot");
    assert_eq!(text, read("critical-chain.txt"));
    assert!(read("time.txt").starts_with(time(&boot).expect("finished").lines().next().expect("a line")));
    // Blame was printed at another moment than the units were recorded: what is in both is printed alike.
    let ours = blame(&boot).expect("finished");
    let recorded = |line: &str| line.split_whitespace().nth(1).is_some_and(|unit| boot.started(unit).is_some());
    let printed = read("blame.txt");
    let both: Vec<&str> = printed.lines().filter(|line| recorded(line)).map(str::trim).collect();
    assert!(both.len() > 20, "{both:?}");
    for line in both {
        assert!(ours.lines().any(|ours| ours.trim() == line), "{line}");
    }
}

/// The facts of that recording that matter, for where the folder is not present.
#[test]
fn a_recorded_networkd_is_printed_with_its_start_and_its_time() {
    let text = "UserspaceTimestampMonotonic=3619090\nFinishTimestampMonotonic=37907119\n\n\
                Id=network.target\nAfter=systemd-networkd.service network-pre.target\nInactiveExitTimestampMonotonic=33195531\n\
                ActiveEnterTimestampMonotonic=33195531\n\n\
                Id=systemd-networkd.service\nAfter=\nInactiveExitTimestampMonotonic=22198090\nActiveEnterTimestampMonotonic=33122090\n";
    let boot = capture::parse(text).expect("a capture");
    let printed = chain(&boot, "network.target", Usec::ZERO).expect("finished");
    let lines: Vec<&str> = printed.lines().skip(3).collect();
    assert_eq!(lines, ["network.target @29.576s", "└─systemd-networkd.service @18.579s +10.924s"]);
}
