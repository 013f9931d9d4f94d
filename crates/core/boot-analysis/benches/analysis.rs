//! What the analysis of a large boot costs, beside Debian's `systemd-analyze` on the same boot.
//!
//! The tool asks a manager for each unit, over a socket; kiln reads a capture. Both print the same chain, which is checked. The tool's time has
//! the asking in it, as it has on a node; a capture has been taken before.

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
/// The quickest of so many counts: what is slower had company.
const TRIES: usize = 5;
/// As many as a unit of a node is ordered after.
const ORDERED_AFTER: u64 = 24;

const KUBELET: &str = "kubelet.service";

/// What `systemctl show` prints of a boot in which each unit waits for some of the hundred before it.
fn record(units: usize) -> String {
    let mut dice = Dice::new(units as u64);
    let mut text =
        "UserspaceTimestampMonotonic=0\nFinishTimestampMonotonic=86400000000\nFirmwareTimestampMonotonic=0\n\
                    LoaderTimestampMonotonic=0\nInitRDTimestampMonotonic=0\n"
            .to_owned();
    let mut ends: Vec<u64> = Vec::new();
    for index in 0..units {
        let near = index.saturating_sub(100);
        // None, now and then; never the same twice, as systemd has it.
        let count = if dice.chance(20) { 0 } else { dice.below(2 * ORDERED_AFTER) };
        let after: BTreeSet<usize> =
            (0..count).filter(|_| index > 0).map(|_| near + dice.place(index - near)).collect();
        let ready = after.iter().map(|place| ends[*place]).fold(1_000, u64::max);
        let began = ready + dice.below(2_000);
        ends.push(began + dice.below(40_000));
        let name = |place: usize| if place + 1 == units { KUBELET.to_owned() } else { format!("unit{place}.service") };
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

#[expect(clippy::disallowed_methods, reason = "a bench is a program, and this is its stopwatch")]
fn quickest(mut work: impl FnMut()) -> Duration {
    let times = (0..TRIES).map(|_| {
        let began = Instant::now();
        work();
        began.elapsed()
    });
    times.min().unwrap_or_default()
}

/// The tool's chain of kubelet, over a bus that serves the boot.
fn theirs(folder: &std::path::Path) -> String {
    let mut command = Command::new(testkit::require(TestDep::SystemdAnalyze));
    command.args(["--user", "--no-pager", "critical-chain", KUBELET]);
    command.env("XDG_RUNTIME_DIR", folder).env("SYSTEMD_COLORS", "0").env("LC_ALL", "C.UTF-8");
    command.env_remove("DBUS_SESSION_BUS_ADDRESS");
    let output = command.output().expect("systemd-analyze runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

fn main() {
    println!("units   systemd-analyze      chain    explain       plot   chain against it   explain against it");
    for units in SIZES {
        let record = record(units);
        let read = || capture::parse(&record).expect("a capture");
        let boot: Boot = read();
        let folder = tempfile::tempdir().expect("a folder");
        // In the user's scope the tool counts from the manager's start, which must not be zero.
        bus::Fake::serve(later(&boot), folder.path()).expect("a bus");
        let ours = kiln_boot_analysis::chain(&boot, KUBELET, Usec::ZERO).expect("a finished boot");
        let theirs_too = theirs(folder.path());
        let differs = ours.lines().zip(theirs_too.lines()).find(|(ours, theirs)| ours != theirs);
        assert!(ours == theirs_too, "ours, then theirs: {differs:?}");
        let tool = quickest(|| drop(black_box(theirs(folder.path()))));
        let chain = quickest(|| drop(black_box(kiln_boot_analysis::chain(&read(), KUBELET, Usec::ZERO))));
        let explained = quickest(|| drop(black_box(explain(&read(), KUBELET))));
        let drawn = quickest(|| {
            let boot = read();
            drop(black_box(plot::plot(&boot, &explain(&boot, KUBELET).expect("an explanation"))));
        });
        let shown = |time: Duration| format!("{:.1} ms", time.as_secs_f64() * 1e3);
        println!(
            "{units:>5}   {:>15} {:>10} {:>10} {:>10}   {:>16.2} {:>20.2}",
            shown(tool),
            shown(chain),
            shown(explained),
            shown(drawn),
            chain.as_secs_f64() / tool.as_secs_f64(),
            explained.as_secs_f64() / tool.as_secs_f64(),
        );
    }
}

/// The same boot, a second later.
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
