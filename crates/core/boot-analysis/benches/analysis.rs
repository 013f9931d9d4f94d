//! Cost of analysing a large boot, compared with Debian's `systemd-analyze` on the same boot.
//!
//! `systemd-analyze` queries the manager for each unit over a socket, as it does on a node, and that is part of its time. kiln reads a capture
//! that was taken before. The benchmark checks that both print the same chain.

#[path = "../tests/e2e_oracle/bus.rs"]
mod bus;
#[path = "../tests/support/dice.rs"]
mod dice;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::hint::black_box;
use std::process::Command;
use std::time::{Duration, Instant};

use dice::Dice;
use kiln_boot_analysis::explain::explain;
use kiln_boot_analysis::{Boot, Usec, capture, plot};
use test_deps::TestDep;

/// A node has some 300 units; 5,000 is one with thousands of mounts and devices.
const SIZES: [usize; 4] = [300, 1_000, 2_500, 5_000];
/// The fastest run counts; slower ones were disturbed by other processes.
const TRIES: usize = 5;
/// Typical length of `After=` on a node.
const ORDERED_AFTER: u64 = 24;

const KUBELET: &str = "kubelet.service";

/// The capture of a boot in which each unit waits for some of the hundred units before it.
fn record(units: usize) -> String {
    let mut dice = Dice::new(units as u64);
    let mut text =
        "UserspaceTimestampMonotonic=0\nFinishTimestampMonotonic=86400000000\nFirmwareTimestampMonotonic=0\n\
                    LoaderTimestampMonotonic=0\nInitRDTimestampMonotonic=0\n"
            .to_owned();
    let mut ends: Vec<u64> = Vec::new();
    for index in 0..units {
        let near = index.saturating_sub(100);
        // Sometimes none, and never the same one twice, as in systemd.
        let count = if dice.chance(20) { 0 } else { dice.below(2 * ORDERED_AFTER) };
        let after: BTreeSet<usize> =
            (0..count).filter(|_| index > 0).map(|_| near + dice.place(index - near)).collect();
        let ready = after.iter().map(|index| ends[*index]).fold(1_000, u64::max);
        let began = ready + dice.below(2_000);
        ends.push(began + dice.below(40_000));
        let name = |index: usize| if index + 1 == units { KUBELET.to_owned() } else { format!("unit{index}.service") };
        let names: Vec<String> = after.into_iter().map(name).collect();
        let _ = write!(
            text,
            "\nId={}\nAfter={}\nInactiveExitTimestampMonotonic={began}\nActiveEnterTimestampMonotonic={}\n\
             ActiveExitTimestampMonotonic=0\nInactiveEnterTimestampMonotonic=0\n",
            name(index),
            names.join(" "),
            ends[index]
        );
    }
    text
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
fn fastest(mut work: impl FnMut()) -> Duration {
    let times = (0..TRIES).map(|_| {
        let began = Instant::now();
        work();
        began.elapsed()
    });
    times.min().unwrap_or_default()
}

/// The chain of kubelet that `systemd-analyze` prints, from a fake manager.
fn systemd_analyze(folder: &std::path::Path) -> String {
    let mut command = Command::new(testkit::require(TestDep::SystemdAnalyze));
    command.args(["--user", "--no-pager", "critical-chain", KUBELET]);
    command.env("XDG_RUNTIME_DIR", folder).env("SYSTEMD_COLORS", "0").env("LC_ALL", "C.UTF-8");
    command.env_remove("DBUS_SESSION_BUS_ADDRESS");
    let output = command.output().expect("systemd-analyze runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

fn main() {
    println!(
        "units   systemd-analyze      chain    explain       plot   chain / systemd-analyze   explain / systemd-analyze"
    );
    for units in SIZES {
        let record = record(units);
        let read = || capture::parse(&record).expect("a capture");
        let boot: Boot = read();
        let folder = tempfile::tempdir().expect("a folder");
        // In user scope, systemd-analyze counts from the start of the manager, which must not be zero.
        bus::Fake::serve(later(&boot), folder.path()).expect("a bus");
        let chain = kiln_boot_analysis::chain(&boot, KUBELET, Usec::ZERO).expect("a finished boot");
        let expected = systemd_analyze(folder.path());
        let difference = chain.lines().zip(expected.lines()).find(|(line, expected)| line != expected);
        assert!(chain == expected, "kiln, then systemd-analyze: {difference:?}");
        let tool = fastest(|| drop(black_box(systemd_analyze(folder.path()))));
        let chain = fastest(|| drop(black_box(kiln_boot_analysis::chain(&read(), KUBELET, Usec::ZERO))));
        let explained = fastest(|| drop(black_box(explain(&read(), KUBELET))));
        let drawn = fastest(|| {
            let boot = read();
            drop(black_box(plot::plot(&boot, &explain(&boot, KUBELET).expect("an explanation"))));
        });
        let shown = |time: Duration| format!("{:.1} ms", time.as_secs_f64() * 1e3);
        println!(
            "{units:>5}   {:>15} {:>10} {:>10} {:>10}   {:>23.2} {:>25.2}",
            shown(tool),
            shown(chain),
            shown(explained),
            shown(drawn),
            chain.as_secs_f64() / tool.as_secs_f64(),
            explained.as_secs_f64() / tool.as_secs_f64(),
        );
    }
}

/// The same boot, shifted by a second.
fn later(boot: &Boot) -> Boot {
    let mut later = boot.clone();
    let shift = |time: Option<Usec>| time.map(|time| if time > Usec::ZERO { time + Usec(1_000_000) } else { time });
    later.manager.userspace = Some(Usec(1_000_000));
    later.manager.finish = shift(boot.manager.finish);
    for unit in later.units.values_mut() {
        (unit.activating, unit.activated) = (shift(unit.activating), shift(unit.activated));
        (unit.deactivating, unit.deactivated) = (shift(unit.deactivating), shift(unit.deactivated));
    }
    later
}
