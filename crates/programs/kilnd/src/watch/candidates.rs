//! Noticing a document, weighing it, and putting it in force.

use std::time::Duration;

use crate::apiserver::Severity;
use crate::os::{Durability, Placed};
use crate::sources::{Rules, Wait as _, report_ready};
use kiln_node_config::Effect;
use kiln_node_plan::{Ask, Offer, Verdict};

use super::Watch;
use super::condition::News;
use super::schedule::Rhythm;
use crate::apply::candidate::Offered;
use crate::apply::{self, Consent, NotApplied};
use crate::boot::kind::BootKind;
use crate::log::chain;
use crate::status::Outcome;

/// Where a document came from, as the status says it.
const SOURCE: &str = "user data";
/// A look that is not answered in this time is left for the next one: the loop has other things to do.
const LOOK: Duration = Duration::from_secs(20);
/// That the platform was told that the machine has started.
const REPORTED: &str = "/run/kiln/reported";

impl Watch<'_> {
    /// Looks for a document where one may change while the machine runs.
    pub(super) fn look(&mut self, now: Duration) {
        let asked_for = std::mem::take(&mut self.asked_for);
        let rules = Rules { deadline: LOOK, ..Rules::IMDS };
        let bytes = match self.imds.user_data(rules, &self.node.wait) {
            Ok(bytes) => {
                self.last_look_error = None;
                bytes
            }
            Err(error) => {
                let error = chain(&error).join(": ");
                // Once, and not with every poll of an outage.
                if self.last_look_error.as_ref() != Some(&error) {
                    self.node.journal.say(&format!("no document could be looked for: {error}"));
                }
                self.last_look_error = Some(error);
                return;
            }
        };
        let Some(bytes) = bytes else { return };
        let seen = kiln_node_config::canonical::hash(&bytes);
        if self.seen.as_ref() == Some(&seen) && !asked_for {
            return;
        }
        let new = self.seen.replace(seen).is_none_or(|before| Some(&before) != self.seen.as_ref());
        match Offered::read(&self.node.root, &bytes, SOURCE) {
            Ok(offered) => self.weigh(now, offered, asked_for),
            Err(error) => self.refuse(now, new, &chain(&error).join(": ")),
        }
    }

    /// A document that is not taken. What is in force stays.
    fn refuse(&mut self, now: Duration, new: bool, why: &str) {
        self.drop_held();
        self.news = News::Refused(why.to_owned());
        if new {
            self.say(Severity::Warning, "KilnRefused", &format!("a document is not taken: {why}"));
            self.report(Outcome::Failed, Some(why));
        }
        self.schedule.tell_now(now);
    }

    fn weigh(&mut self, now: Duration, offered: Offered, asked_for: bool) {
        let number = offered.config.metadata.generation;
        let (offer, way) = match apply::plan(self.node, &offered) {
            Ok(planned) => planned,
            Err(error) => return self.refuse(now, true, &chain(&error).join(": ")),
        };
        self.drop_held();
        self.news = News::None;
        self.schedule.tell_now(now);
        match offer {
            Offer::InForce => {}
            Offer::Outranked { by } if by > number => {
                self.node.journal.say(&format!("generation {number} is offered and {by} is in force"));
            }
            Offer::Outranked { .. } => {
                let why =
                    format!("another document with the number {number} is in force; give this one a higher number");
                self.refuse(now, true, &why);
            }
            Offer::Refused { reason } => self.news = News::CameBack(format!("generation {number} came back {reason}")),
            Offer::Take => {
                let plan = &way.plan;
                let asks = plan.asks.clone();
                match plan.verdict() {
                    Verdict::Paused => {
                        let what = format!(
                            "generation {number} would change {} fields, and says to report only",
                            plan.changes.len()
                        );
                        self.node.journal.say(&what);
                        self.news = News::Paused(what);
                    }
                    Verdict::Ask if self.is_allowed(number, &asks) => self.hold(now, offered, false, true),
                    Verdict::Ask => {
                        self.asked.wishes.wait(&asks, number, &offered.hash);
                        self.save_wishes();
                        let lines = self.asked.wishes.lines().join("; ");
                        self.say(Severity::Normal, "KilnPending", &format!("the cluster is asked for {lines}"));
                        self.report(Outcome::Asked, None);
                    }
                    Verdict::Apply | Verdict::Nothing => {
                        let spread = plan.effect >= Effect::Restart && !asked_for;
                        self.hold(now, offered, spread, false);
                    }
                }
            }
        }
    }

    /// The cluster made room for this document. No node becomes another one, whoever allows it.
    fn is_allowed(&self, number: u64, asks: &[Ask]) -> bool {
        self.allowed == Some(number) && !asks.contains(&Ask::Replace)
    }

    fn hold(&mut self, now: Duration, offered: Offered, spread: bool, allowed: bool) {
        let delay = self.schedule.hold(now, Rhythm::of(&offered.config), &offered.hash, spread);
        if !delay.is_zero() {
            let what = format!("generation {} comes in {} s", offered.config.metadata.generation, delay.as_secs());
            self.node.journal.say(&what);
            self.news = News::Waits(what);
        }
        self.held = Some((offered, allowed));
    }

    /// No document waits for its turn or for the cluster.
    fn drop_held(&mut self) {
        self.held = None;
        self.schedule.drop_held();
        if self.asked.wishes.act.take().is_some() {
            self.save_wishes();
        }
    }

    /// Puts the document in force whose turn has come.
    pub(super) fn apply(&mut self, now: Duration) {
        let Some((offered, allowed)) = self.held.take() else { return };
        let number = offered.config.metadata.generation;
        let consent = if allowed { Consent::Person } else { Consent::Offer };
        self.schedule.tell_now(now);
        match apply::apply(self.node, &offered, consent) {
            Ok(applied) => {
                self.news = News::None;
                let mut status = applied.status("watch");
                if applied.outcome == Outcome::Applied {
                    self.finished = applied.generation.as_ref().map(|generation| generation.folder.clone());
                    let effect = applied.plan.effect;
                    self.say(
                        Severity::Normal,
                        "KilnApplied",
                        &format!("generation {number} is in force, on trial ({effect})"),
                    );
                }
                if applied.outcome == Outcome::Applied && applied.plan.effect == Effect::Reboot {
                    let boot = self.boot();
                    if self.asked.wishes.restart(number, &offered.hash, &boot) {
                        self.save_wishes();
                    }
                }
                if let Some(generation) = applied.generation {
                    self.keep_up(&applied.state, self.node.wait.now());
                    self.count(&generation);
                }
                status.pending = self.asked.wishes.lines();
                self.node.report(status);
            }
            Err(NotApplied::Host(crate::os::Error::Held { .. })) => {
                // Somebody is at work; what they leave decides whether this one is still wanted.
                self.seen = None;
                self.schedule.look_now(now + LOOK);
            }
            Err(error) => {
                let causes = chain(&error).join(": ");
                self.news = match error {
                    NotApplied::CameBack { .. } => News::CameBack(format!("generation {number}: {causes}")),
                    _ => News::Failed(format!("generation {number}: {causes}")),
                };
                self.say(Severity::Warning, "KilnFailed", &format!("generation {number} is not in force: {causes}"));
                self.report(Outcome::Failed, Some(&causes));
            }
        }
    }

    /// Tells the platform that the machine has started, where the document says that nobody else does. Once per first boot.
    pub(super) fn ready(&mut self) {
        let wanted = self.in_force.as_ref().is_some_and(|(_, config)| config.spec.platform.report_ready == Some(true));
        if !wanted || self.reported_ready {
            return;
        }
        let again = self.node.boot().ok().flatten().is_some_and(|boot| boot.kind == BootKind::Again);
        if again || self.node.root.kind(REPORTED).ok().flatten().is_some() {
            self.reported_ready = true;
            return;
        }
        let rules = Rules { deadline: LOOK, ..Rules::WIRE };
        match report_ready(&self.node.endpoints, rules, &self.node.wait, 0) {
            Ok(()) => {
                self.node.journal.say("the platform knows that the machine has started");
                self.reported_ready = true;
                // Without it a restart of the program tells it again, which does no harm.
                let _ = self.node.root.write_all(&[Placed::new(REPORTED, b"", 0o600)], Durability::Later);
            }
            Err(error) => self.node.journal.say(&format!("the platform was not told: {}", chain(&error).join(": "))),
        }
    }
}
