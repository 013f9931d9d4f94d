//! Windows, time zones and clocks that jump.

use jiff::SignedDuration;
use kiln_fleet_api::{Effect, RolloutPhase, RolloutPolicySpec};
use kiln_rollout::{PastTurn, Policy};
use serde_json::{Value, json};

use crate::model::{Fleet, at, policy};

/// Whether the drain of a node may begin at a time, and when the next window opens.
fn at_time(windows: &Value, effect: Effect, time: &str) -> (bool, Option<String>) {
    let mut fleet = Fleet::new(1, policy(json!({ "windows": windows }))).effect(effect, true);
    fleet.now = at(time);
    let starts = !fleet.turn().is_empty();
    (starts, fleet.status.waiting_for.and_then(|waiting| waiting.until))
}

fn is_open(windows: &Value, time: &str) -> bool {
    at_time(windows, Effect::Drain, time).0
}

#[test]
fn window_is_open_on_its_days_and_crosses_midnight() {
    let windows = json!([{"days": ["Mon-Thu"], "from": "22:00", "to": "05:00"}]);
    // 2026-03-02 is a Monday.
    for (time, open) in [
        ("2026-03-02T21:59:59Z", false),
        ("2026-03-02T22:00:00Z", true),
        ("2026-03-03T04:59:59Z", true),
        ("2026-03-03T05:00:00Z", false),
        ("2026-03-06T04:00:00Z", true),
        ("2026-03-06T23:00:00Z", false),
        ("2026-03-02T04:00:00Z", false),
    ] {
        assert_eq!(is_open(&windows, time), open, "{time}");
    }
    assert_eq!(at_time(&windows, Effect::Drain, "2026-03-06T12:00:00Z").1.as_deref(), Some("2026-03-09T22:00:00Z"));
}

#[test]
fn several_windows_join_and_ranges_wrap_around_the_week() {
    let windows = json!([{"days": ["Sat-Mon"], "from": "10:00", "to": "12:00"}, {"days": ["Wed", "Mon"], "from": "12:00", "to": "24:00"}]);
    for (time, open) in [
        ("2026-03-01T11:00:00Z", true),
        ("2026-03-02T11:59:00Z", true),
        ("2026-03-02T12:00:00Z", true),
        ("2026-03-02T23:59:59Z", true),
        ("2026-03-03T00:00:00Z", false),
        ("2026-03-04T13:00:00Z", true),
    ] {
        assert_eq!(is_open(&windows, time), open, "{time}");
    }
}

#[test]
fn only_listed_effects_need_a_window() {
    let closed = "2026-03-02T12:00:00Z";
    let default = json!([{"from": "01:00", "to": "02:00"}]);
    for (effect, starts) in [
        (Effect::None, true),
        (Effect::Restart, true),
        (Effect::Cluster, true),
        (Effect::Drain, false),
        (Effect::Reboot, false),
    ] {
        assert_eq!(at_time(&default, effect, closed).0, starts, "{effect}");
    }
    let listed = json!([{"from": "01:00", "to": "02:00", "effects": ["restart"]}]);
    assert!(!at_time(&listed, Effect::Restart, closed).0);
    assert!(at_time(&listed, Effect::Drain, closed).0);
    let mut unknown = Fleet::new(1, policy(json!({ "windows": listed }))).effect(Effect::Drain, false);
    assert_eq!(unknown.turn(), [""; 0], "an unknown effect can be a restart");
}

#[test]
fn window_follows_daylight_saving_time() {
    let windows = json!([{"from": "22:00", "to": "23:00", "timeZone": "Europe/Berlin"}]);
    assert!(is_open(&windows, "2026-03-28T21:30:00Z"), "UTC+1");
    assert!(is_open(&windows, "2026-03-29T20:30:00Z"), "UTC+2");
    assert!(!is_open(&windows, "2026-03-29T21:30:00Z"));
}

#[test]
fn hour_that_the_clock_skips_ends_or_begins_a_window_at_the_change() {
    // Berlin skips 02:00 to 03:00 on 2026-03-29, at 01:00 UTC.
    let ends = json!([{"from": "01:00", "to": "02:30", "timeZone": "Europe/Berlin"}]);
    assert!(is_open(&ends, "2026-03-29T00:59:59Z"));
    assert!(!is_open(&ends, "2026-03-29T01:00:00Z"));
    let begins = json!([{"from": "02:30", "to": "04:00", "timeZone": "Europe/Berlin"}]);
    assert!(!is_open(&begins, "2026-03-29T00:59:59Z"));
    assert!(is_open(&begins, "2026-03-29T01:00:00Z"));
    let skipped = json!([{"from": "02:15", "to": "02:45", "timeZone": "Europe/Berlin"}]);
    assert_eq!(at_time(&skipped, Effect::Drain, "2026-03-29T00:30:00Z").1.as_deref(), Some("2026-03-30T00:15:00Z"));
}

#[test]
fn hour_that_the_clock_repeats_counts_once() {
    // Berlin repeats 02:00 to 03:00 on 2026-10-25, at 01:00 UTC.
    let ends = json!([{"from": "01:00", "to": "02:30", "timeZone": "Europe/Berlin"}]);
    assert!(is_open(&ends, "2026-10-25T00:29:59Z"));
    assert!(!is_open(&ends, "2026-10-25T00:30:00Z"), "it ended at the first 02:30");
    assert!(!is_open(&ends, "2026-10-25T01:10:00Z"), "the second 02:10");
    let begins = json!([{"from": "02:30", "to": "03:30", "timeZone": "Europe/Berlin"}]);
    assert!(is_open(&begins, "2026-10-25T00:30:00Z"));
    assert!(is_open(&begins, "2026-10-25T02:29:59Z"));
    assert!(!is_open(&begins, "2026-10-25T02:30:00Z"));
}

#[test]
fn work_that_would_not_end_inside_is_not_begun() {
    let mut fleet =
        Fleet::new(1, policy(json!({"windows": [{"from": "22:00", "to": "23:00"}]}))).effect(Effect::Drain, true);
    fleet.past = vec![PastTurn { effect: Effect::Drain, took: SignedDuration::from_mins(20) }];
    fleet.now = at("2026-03-02T22:41:00Z");
    assert_eq!(fleet.clone().turn(), [""; 0]);
    fleet.now = at("2026-03-02T22:40:00Z");
    assert_eq!(fleet.clone().turn().len(), 1);
    fleet.past[0].took = SignedDuration::from_mins(61);
    assert_eq!(fleet.turn(), [""; 0]);
    assert!(fleet.waits().1.contains("no window is long enough"), "{:?}", fleet.waits());
    assert!(kiln_fleet_api::Condition::is_true(&fleet.status.conditions, "Stalled"));
}

#[test]
fn window_counts_at_the_drain_and_work_that_began_is_finished() {
    let windows = json!([{"from": "22:00", "to": "23:00"}]);
    let mut fleet = Fleet::new(1, policy(json!({ "windows": windows }))).effect(Effect::Reboot, false);
    assert_eq!(fleet.turn(), ["assign new to web-01 in wave 1"], "the effect is unknown");
    fleet.react();
    assert_eq!(fleet.turn(), [""; 0]);
    assert_eq!(fleet.waits().0, "Window");
    fleet.now = at("2026-03-02T22:59:00Z");
    assert_eq!(fleet.turn(), ["drain web-01"]);
    fleet.react();
    fleet.pass(2);
    assert_eq!(fleet.turn(), ["allow new on web-01"], "the window is closed, but the node is drained");
    fleet.settle();
    assert_eq!(fleet.status.phase, RolloutPhase::Complete);
}

#[test]
fn clock_that_jumps_neither_starts_twice_nor_waits_for_hours() {
    let mut fleet = Fleet::new(3, policy(json!({"waves": {"first": {"soak": "10m"}}})));
    assert_eq!(fleet.turn().len(), 1);
    fleet.pass(-600);
    assert_eq!(fleet.turn(), [""; 0]);
    fleet.react();
    fleet.react();
    fleet.turn();
    assert_eq!(fleet.waits().0, "Soak");
    fleet.pass(-600);
    fleet.turn();
    fleet.pass(10);
    assert_eq!(fleet.turn(), [""; 0], "the soak time starts again");
    fleet.pass(600);
    assert_eq!(fleet.turn(), ["assign new to web-02 in wave 2"]);
    for extreme in [jiff::Timestamp::MIN, jiff::Timestamp::MAX] {
        fleet.now = extreme;
        fleet.turn();
    }
}

#[test]
fn invalid_fields_of_a_policy_are_named() {
    for (value, expected) in [
        (json!({"waves": {"first": {"soak": "soon"}}}), "`waves.first.soak`: invalid duration `soon`"),
        (json!({"nodeTimeout": "-5m"}), "`nodeTimeout`: invalid duration `-5m`"),
        (json!({"waves": {"first": {"prefer": ["canary"]}}}), "`waves.first.prefer[0]`: invalid label `canary`"),
        (json!({"windows": [{"from": "1:00", "to": "02:00"}]}), "`windows[0].from`: invalid time `1:00`"),
        (json!({"windows": [{"from": "01:00", "to": "24:01"}]}), "`windows[0].to`: invalid time `24:01`"),
        (json!({"windows": [{"from": "01:00", "to": "01:00"}]}), "`windows[0]`: the window is empty"),
        (
            json!({"windows": [{"from": "01:00", "to": "02:00", "days": ["Mon", "Tues"]}]}),
            "`windows[0].days[1]`: invalid days `Tues`",
        ),
        (
            json!({"windows": [{"from": "01:00", "to": "02:00", "timeZone": "Berlin"}]}),
            "`windows[0].timeZone`: unknown time zone `Berlin`",
        ),
        (json!({"gates": [{}]}), "`gates[0]`: expected exactly one"),
        (
            json!({"gates": [{"prometheus": {"url": "u", "query": "q", "fail": "big"}}]}),
            "`gates[0].prometheus.fail`: invalid comparison `big`",
        ),
    ] {
        let spec: RolloutPolicySpec = serde_json::from_value(value).expect("a policy");
        let error = Policy::parse(&spec).expect_err(expected).to_string();
        assert!(error.starts_with(expected), "{error}");
    }
}
