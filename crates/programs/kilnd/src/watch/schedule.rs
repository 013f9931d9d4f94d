//! When a node looks at what, and what follows from it. Pure: time comes in, acts come out.

use std::time::Duration;

use crate::sources::mix;
use kiln_node_config::NodeConfig;

/// How often a document is looked for where the document in force does not say.
const POLL: Duration = Duration::from_mins(5);
/// A service that answers five questions a second per machine is not asked more often than this, whatever a document says.
const SHORTEST_POLL: Duration = Duration::from_secs(5);
/// The first look comes within this time after the start: a machine that was off for a week should not wait for its turn.
const FIRST_POLL: Duration = Duration::from_secs(20);
/// How often a node reads its own object. Five thousand nodes make 170 requests a second of it, a third of what their leases do.
const NODE: Duration = Duration::from_secs(30);
/// How often gates are looked at during a trial.
const PROBE: Duration = Duration::from_secs(2);
/// How long all gates must hold without a break. A kubelet that dies of its configuration does so within seconds of its start.
const STEADY: Duration = Duration::from_secs(10);
/// How long a trial takes where the document does not say. A kubelet that restarts is ready in half a minute; a slow disk and a long list
/// of images make it a few.
const WITHIN: Duration = Duration::from_mins(5);
/// How often gates are looked at when a trial is overdue and there is nothing to go back to.
const OVERDUE: Duration = Duration::from_secs(15);

/// What a document says about time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rhythm {
    /// How often a newer one is looked for.
    pub(super) poll: Duration,
    /// Over what time nodes spread a change.
    pub(super) spread: Duration,
    /// How long its trial takes at most.
    pub(super) within: Duration,
}

/// What a look at a gate shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Held {
    /// It holds.
    Yes,
    /// It does not.
    No(String),
    /// Nobody can tell: the API server cannot be reached.
    Unknown(String),
}

/// Something to do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// Read the node's object, tell it what changed.
    ReadNode,
    /// Look for a document.
    Look,
    /// Look at the gates.
    Probe,
    /// Put the document in force that waits for its turn.
    Apply,
}

/// What became of a trial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Trial {
    /// It goes on.
    Undecided,
    /// It is good.
    Good,
    /// It is not, and this is why.
    Failed(String),
}

#[derive(Clone, Debug)]
struct Trying {
    hash: String,
    since: Duration,
    /// Since when all gates hold.
    steady: Option<Duration>,
    /// It failed and there was nothing to go back to.
    overdue: bool,
}

/// When what is due.
#[derive(Clone, Debug)]
pub(super) struct Schedule {
    chance: u64,
    turn: u64,
    poll_at: Duration,
    node_at: Duration,
    probe_at: Duration,
    apply_at: Option<Duration>,
    trying: Option<Trying>,
    /// The annotation by which somebody asks for a look, as it was last read.
    asked: Option<String>,
    /// Whether it was ever read.
    heard: bool,
}

impl Default for Rhythm {
    fn default() -> Self {
        Self { poll: POLL, spread: Duration::ZERO, within: WITHIN }
    }
}

impl Rhythm {
    /// The rhythm of a document. Where it says nothing about spreading, nodes are as far apart as their polls.
    pub(super) fn of(document: &NodeConfig) -> Self {
        let (update, health) = (&document.spec.update, &document.spec.health);
        let seconds = |seconds: u32| Duration::from_secs(u64::from(seconds));
        Self {
            poll: if update.poll_seconds == 0 { POLL } else { seconds(update.poll_seconds).max(SHORTEST_POLL) },
            spread: seconds(update.spread_seconds),
            within: if health.within_seconds == 0 { WITHIN } else { seconds(health.within_seconds) },
        }
    }
}

impl Schedule {
    /// A schedule that begins now. `chance` is this machine's number, which tells it from its neighbours.
    pub(super) fn new(now: Duration, chance: u64) -> Self {
        Self {
            chance,
            turn: 0,
            poll_at: now + part(FIRST_POLL, mix(chance)),
            node_at: now,
            probe_at: now,
            apply_at: None,
            trying: None,
            asked: None,
            heard: false,
        }
    }

    /// What is due. What is due again later is scheduled by this.
    pub(super) fn due(&mut self, now: Duration, rhythm: Rhythm) -> Vec<Act> {
        let mut acts = Vec::new();
        if self.trying.is_some() && now >= self.probe_at {
            let overdue = self.trying.as_ref().is_some_and(|trying| trying.overdue);
            self.probe_at = now + if overdue { OVERDUE } else { PROBE };
            acts.push(Act::Probe);
        }
        if now >= self.node_at {
            self.node_at = now + self.jittered(NODE);
            acts.push(Act::ReadNode);
        }
        if now >= self.poll_at {
            self.poll_at = now + self.jittered(rhythm.poll);
            acts.push(Act::Look);
        }
        // One trial after the other: what is being tried may be what the next one builds on. One that failed for good does not count.
        let busy = self.trying.as_ref().is_some_and(|trying| !trying.overdue);
        if !busy && self.apply_at.is_some_and(|at| now >= at) {
            self.apply_at = None;
            acts.push(Act::Apply);
        }
        acts
    }

    /// When something is due next.
    pub(super) fn wake(&self) -> Duration {
        let mut next = self.poll_at.min(self.node_at);
        if let Some(trying) = &self.trying {
            next = next.min(self.probe_at);
            if !trying.overdue {
                return next;
            }
        }
        self.apply_at.map_or(next, |at| next.min(at))
    }

    /// Somebody asks for a look: at once.
    pub(super) fn look_now(&mut self, now: Duration) {
        self.poll_at = now;
    }

    /// Something is to be told: at once.
    pub(super) fn tell_now(&mut self, now: Duration) {
        self.node_at = now;
    }

    /// The node's object was read with this value of the annotation that asks for a look. Says whether it is another one than before; the
    /// first one that is read asks for nothing, since the first look comes by itself.
    pub(super) fn asked(&mut self, now: Duration, value: Option<&str>) -> bool {
        let changed = self.heard && value.is_some() && self.asked.as_deref() != value;
        (self.heard, self.asked) = (true, value.map(str::to_owned));
        if changed {
            self.look_now(now);
        }
        changed
    }

    /// A document is to be put in force: at this machine's turn where it costs something and nobody asked for it now.
    pub(super) fn hold(&mut self, now: Duration, rhythm: Rhythm, hash: &str, spread: bool) -> Duration {
        let number = hash.bytes().fold(self.chance, |number, byte| mix(number ^ u64::from(byte)));
        let delay = if spread { part(rhythm.spread, number) } else { Duration::ZERO };
        self.apply_at = Some(now + delay);
        delay
    }

    /// No document waits any more.
    pub(super) fn drop_held(&mut self) {
        self.apply_at = None;
    }

    /// A generation is on trial since a time, or none is.
    pub(super) fn on_trial(&mut self, trial: Option<(&str, Duration)>) {
        match trial {
            None => self.trying = None,
            Some((hash, _)) if self.trying.as_ref().is_some_and(|trying| trying.hash == hash) => {}
            Some((hash, since)) => {
                self.trying = Some(Trying { hash: hash.to_owned(), since, steady: None, overdue: false });
                self.probe_at = since;
            }
        }
    }

    /// A trial failed and there is nothing to go back to. It is looked at less often, and a better document gets its chance.
    pub(super) fn overdue(&mut self) {
        if let Some(trying) = &mut self.trying {
            trying.overdue = true;
        }
    }

    /// What follows from a look at the gates. What nobody can tell is no success: a document may be the reason that nobody can.
    pub(super) fn probed(&mut self, now: Duration, rhythm: Rhythm, gates: &[(String, Held)]) -> Trial {
        let Some(trying) = &mut self.trying else { return Trial::Undecided };
        let open: Vec<String> = gates
            .iter()
            .filter_map(|(name, held)| match held {
                Held::Yes => None,
                Held::No(why) | Held::Unknown(why) => Some(format!("{name}: {why}")),
            })
            .collect();
        if open.is_empty() {
            let since = *trying.steady.get_or_insert(now);
            if now.saturating_sub(since) >= STEADY {
                self.trying = None;
                return Trial::Good;
            }
            return Trial::Undecided;
        }
        trying.steady = None;
        let waited = now.saturating_sub(trying.since);
        if waited >= rhythm.within && !trying.overdue {
            return Trial::Failed(format!("after {} s: {}", waited.as_secs(), open.join("; ")));
        }
        Trial::Undecided
    }

    /// A tenth more or less, by chance: machines that started together drift apart.
    fn jittered(&mut self, time: Duration) -> Duration {
        self.turn += 1;
        time * 9 / 10 + part(time / 5, mix(self.chance ^ self.turn))
    }
}

/// A part of a time by a number.
fn part(time: Duration, number: u64) -> Duration {
    let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    if millis == 0 { Duration::ZERO } else { Duration::from_millis(number % millis) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn rhythm() -> Rhythm {
        Rhythm { poll: Duration::from_mins(1), spread: Duration::from_mins(10), within: Duration::from_mins(2) }
    }

    fn yes() -> Vec<(String, Held)> {
        vec![("kubelet".to_owned(), Held::Yes), ("node".to_owned(), Held::Yes)]
    }

    fn no(held: Held) -> Vec<(String, Held)> {
        vec![("kubelet".to_owned(), Held::Yes), ("node".to_owned(), held)]
    }

    /// Runs by the schedule's own wakes and says when each act came.
    fn run(schedule: &mut Schedule, until: Duration, mut on: impl FnMut(&mut Schedule, Duration, Act)) {
        let (mut now, mut still) = (Duration::ZERO, 0);
        while now < until {
            for act in schedule.due(now, rhythm()) {
                on(schedule, now, act);
            }
            let wake = schedule.wake();
            still = if wake > now { 0 } else { still + 1 };
            assert!(still < 3, "a schedule that never sleeps: {now:?}");
            now = wake.max(now);
        }
    }

    #[test]
    fn documents_are_looked_for_once_per_poll_and_neighbours_do_not_do_it_together() {
        let looks = |chance| {
            let mut looks = Vec::new();
            run(&mut Schedule::new(Duration::ZERO, chance), Duration::from_hours(1), |_, now, act| {
                if act == Act::Look {
                    looks.push(now);
                }
            });
            looks
        };
        let (one, two) = (looks(1), looks(2));
        assert!((54..=68).contains(&one.len()), "{}", one.len());
        assert!(one[0] <= FIRST_POLL && two[0] <= FIRST_POLL);
        let together = one.iter().filter(|a| two.iter().any(|b| a.abs_diff(*b) < SECOND)).count();
        assert!(together < one.len() / 3, "{together} of {}", one.len());
    }

    #[test]
    fn a_fleet_spreads_a_change_over_the_whole_window() {
        let delays: Vec<u64> = (0..1000)
            .map(|chance| Schedule::new(Duration::ZERO, chance).hold(SECOND, rhythm(), "hash", true).as_secs())
            .collect();
        for minute in 0..10 {
            let count = delays.iter().filter(|delay| *delay / 60 == minute).count();
            assert!((60..140).contains(&count), "{count} of 1000 nodes in minute {minute}");
        }
        let again = Schedule::new(Duration::ZERO, 7).hold(SECOND, rhythm(), "hash", true);
        assert_eq!(
            Schedule::new(Duration::ZERO, 7).hold(SECOND, rhythm(), "hash", true),
            again,
            "a restart keeps its turn"
        );
        assert_ne!(Schedule::new(Duration::ZERO, 7).hold(SECOND, rhythm(), "other", true), again);
        assert_eq!(Schedule::new(Duration::ZERO, 7).hold(SECOND, rhythm(), "hash", false), Duration::ZERO);
    }

    #[test]
    fn a_held_document_is_applied_at_its_turn_and_not_during_a_trial() {
        let mut schedule = Schedule::new(Duration::ZERO, 3);
        let delay = schedule.hold(Duration::ZERO, rhythm(), "b", true);
        let mut applied = Vec::new();
        run(&mut schedule.clone(), Duration::from_mins(20), |_, now, act| {
            if act == Act::Apply {
                applied.push(now);
            }
        });
        assert_eq!(applied, [delay]);

        schedule.on_trial(Some(("a", Duration::ZERO)));
        let mut applied = Vec::new();
        run(&mut schedule, Duration::from_mins(40), |schedule, now, act| match act {
            Act::Probe if now > Duration::from_mins(30) => drop(schedule.probed(now, rhythm(), &yes())),
            Act::Probe => drop(schedule.probed(now, rhythm(), &no(Held::No("x".to_owned())))),
            Act::Apply => applied.push(now),
            _ => {}
        });
        assert_eq!(applied.len(), 1);
        assert!(applied[0] > Duration::from_mins(30), "{applied:?}");
    }

    #[test]
    fn a_trial_is_good_when_all_gates_hold_for_a_while_without_a_break() {
        let mut schedule = Schedule::new(Duration::ZERO, 3);
        schedule.on_trial(Some(("a", Duration::ZERO)));
        assert_eq!(schedule.probed(SECOND, rhythm(), &yes()), Trial::Undecided);
        assert_eq!(schedule.probed(SECOND * 8, rhythm(), &no(Held::No("down".to_owned()))), Trial::Undecided);
        assert_eq!(schedule.probed(SECOND * 12, rhythm(), &yes()), Trial::Undecided);
        assert_eq!(schedule.probed(SECOND * 21, rhythm(), &yes()), Trial::Undecided, "the break counts");
        assert_eq!(schedule.probed(SECOND * 22, rhythm(), &yes()), Trial::Good);
        assert_eq!(
            schedule.probed(SECOND * 999, rhythm(), &no(Held::No("down".to_owned()))),
            Trial::Undecided,
            "at most once"
        );
    }

    #[test]
    fn a_trial_fails_at_its_deadline_for_what_does_not_hold_and_for_what_nobody_can_tell() {
        for held in [Held::No("not ready".to_owned()), Held::Unknown("no route".to_owned())] {
            let mut schedule = Schedule::new(Duration::ZERO, 3);
            schedule.on_trial(Some(("a", SECOND * 100)));
            assert_eq!(schedule.probed(SECOND * 219, rhythm(), &no(held.clone())), Trial::Undecided);
            let Trial::Failed(reason) = schedule.probed(SECOND * 220, rhythm(), &no(held)) else {
                panic!("not failed")
            };
            assert!(reason.starts_with("after 120 s: node: no"), "{reason}");
        }
    }

    #[test]
    fn a_trial_with_nothing_to_go_back_to_is_still_looked_at_and_may_turn_good() {
        let mut schedule = Schedule::new(Duration::ZERO, 3);
        schedule.on_trial(Some(("a", Duration::ZERO)));
        let late = Duration::from_mins(5);
        assert!(matches!(schedule.probed(late, rhythm(), &no(Held::No("x".to_owned()))), Trial::Failed(_)));
        schedule.overdue();
        assert_eq!(schedule.probed(late * 2, rhythm(), &no(Held::No("x".to_owned()))), Trial::Undecided, "said once");
        schedule.hold(late * 2, rhythm(), "b", false);
        assert!(schedule.due(late * 2, rhythm()).contains(&Act::Apply), "a better document gets its chance");
        assert_eq!(schedule.probed(late * 3, rhythm(), &yes()), Trial::Undecided);
        assert_eq!(schedule.probed(late * 4, rhythm(), &yes()), Trial::Good);
    }

    #[test]
    fn any_new_value_of_the_annotation_asks_for_a_look_at_once() {
        let mut schedule = Schedule::new(Duration::ZERO, 3);
        schedule.due(Duration::from_mins(1), rhythm());
        let now = Duration::from_mins(1) + SECOND;
        assert!(!schedule.asked(now, Some("1")), "the first value was there before us");
        assert!(!schedule.asked(now, Some("1")));
        assert!(!schedule.due(now, rhythm()).contains(&Act::Look));
        assert!(schedule.asked(now, Some("2")));
        assert!(schedule.due(now, rhythm()).contains(&Act::Look));
        assert!(!schedule.asked(now, None), "taking it away asks for nothing");
        assert!(schedule.asked(now, Some("2")));
    }

    #[test]
    fn a_document_cannot_make_a_node_ask_all_the_time() {
        let mut document = NodeConfig::default();
        assert_eq!(Rhythm::of(&document), Rhythm::default());
        document.spec.update.poll_seconds = 1;
        document.spec.health.within_seconds = 30;
        assert_eq!(Rhythm::of(&document).poll, SHORTEST_POLL);
        assert_eq!(Rhythm::of(&document).within, SECOND * 30);
    }
}
