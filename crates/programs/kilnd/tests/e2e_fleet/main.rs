//! Rollouts over real nodes: a real control plane, `kiln operator` as a process with the permissions of the chart, and four machines with
//! real systemd, containerd, kubelet and kilnd in two zones.
//!
//! The machines are expensive to boot, so all scenarios share them, one after another. Each asserts on the objects and on the machines.

#[path = "../booted/mod.rs"]
mod booted;
mod chart;
mod documents;
mod fleet;
#[path = "../../../kiln/tests/e2e_local/image.rs"]
mod image;
mod in_flight;
mod kills;
mod latency;
mod node;
mod operator;
mod outcomes;
mod pods;
#[path = "../../../../engine/tests/kube_operator/recording.rs"]
#[expect(dead_code, reason = "this test uses a part of the module")]
mod recording;
mod stops;

use fleet::{Fleet, now};

/// For the module with the container images.
mod root {
    pub(crate) fn read(path: &std::path::Path) -> Vec<u8> {
        std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }
}

/// A scenario: a sentence, and the function that checks it.
type Scenario = (&'static str, fn(&mut Fleet));

const SCENARIOS: [Scenario; 7] = [
    ("a good document reaches all nodes in waves, one zone at a time", outcomes::good),
    ("a bad document is reverted by the first node and reaches no other", outcomes::bad),
    ("an outage of the API server reverts nothing", outcomes::outage),
    ("a freeze and a window that closes finish the node in flight and start no other", stops::freeze_and_window),
    ("a node whose budget blocks its drain is skipped and uncordoned", in_flight::blocked),
    ("a node that is deleted in its turn frees its place", in_flight::deleted),
    // Later documents would reboot nodes, too.
    ("an operator that is killed in any phase is continued without doing anything twice", kills::every_phase),
];

#[test]
fn rollouts_over_four_real_nodes_survive_bad_documents_outages_kills_stops_and_deletions() {
    let started = now();
    let mut fleet = Fleet::start();
    eprintln!("{:>4} s: all nodes joined", started.elapsed().as_secs());
    for (sentence, check) in SCENARIOS {
        check(&mut fleet);
        eprintln!("{:>4} s: {sentence}", started.elapsed().as_secs());
    }
}
