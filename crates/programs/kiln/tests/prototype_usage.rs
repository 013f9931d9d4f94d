//! Invalid arguments of `kiln prototype`: exit code 2 and an error.

use testkit::Kiln;

fn kiln() -> Kiln {
    Kiln::at(env!("CARGO_BIN_EXE_kiln"))
}

const AUTO: [&str; 5] =
    ["auto-update", "--pending-reboot-annotation", "a/pending", "--last-patch-annotation", "a/patched"];

#[test]
fn invalid_options_are_rejected_with_the_expected_form() {
    for (arguments, message) in [
        (&["update"][..], "--target-node"),
        (&["update", "--target-node", "Node_1"], "node name"),
        (&["update", "--target-node", "n", "--max-history", "1"], "at least 2"),
        (&["update", "--target-node", "n", "--tags", "a"], "name=value"),
        (&["update", "--target-node", "n", "--tags", "azure-x=1"], "reserves the prefix `azure`"),
        (&["update", "--target-node", "n", "--replicas", "101"], "1..=100"),
        (&["status", "--subscription", "my subscription"], "a GUID"),
        (&["status", "--log-prefix", "a b"], "without spaces and colons"),
        (&["status", "--log-prefix", "a:b"], "without spaces and colons"),
        (&["status", "--log-level", "VERBOSE"], "CRITICAL"),
        (&["status", "--max-age", "5w"], "unknown unit `w`"),
        (&["auto-update"], "--pending-reboot-annotation"),
        (&[&AUTO[..], &["--minimum-ready-time", "soon"]].concat(), "invalid time span `soon`"),
        (&[&AUTO[..], &["--minimum-candidates", "0"]].concat(), "1.."),
        (&["rollback", "--to", "yesterday"], "or `original`"),
        (&["rollback", "--unpause", "--delete"], "cannot be used with"),
        (&["rollback", "--after", "soon"], "2026-12-01"),
        (&["refresh", "--all-at-once", "--surge", "2"], "cannot be used with"),
        (&["diff", "2026.11.16"], "<V2>"),
        (&["sing"], "sing"),
    ] {
        let finished = kiln().run(&[&["prototype"], arguments].concat());
        assert_eq!(finished.code, Some(2), "{finished}");
        assert!(finished.stderr.contains(message), "{message}: {finished}");
    }
}

#[test]
fn kaminos_options_are_accepted() {
    // The command fails for lack of a subscription, after all options were parsed.
    for arguments in [
        &["--log-level", "CRITICAL", "--log-timestamps", "--log-prefix", "x", "status"][..],
        &["status", "--log-level", "debug"],
        &["update", "--target-node", "n", "--grace-period", "5", "--force", "--new-updated-nodes", "0"],
        &[
            &AUTO[..],
            &[
                "--target-vmss",
                "a",
                "b",
                "--target-vmss",
                "c",
                "--ignore-nodes",
                "n1",
                "n2",
                "--minimum-ready-time",
                "3d",
            ],
        ]
        .concat(),
        &[&AUTO[..], &["--node-ignore-annotation", "x/y", "z", "--maximum-image-age", "0", "--dry-run"]].concat(),
    ] {
        let finished = kiln().run(&[&["prototype"], arguments].concat());
        assert_eq!(finished.code, Some(2), "{finished}");
        assert!(finished.stderr.contains("the subscription is not known"), "{finished}");
    }
}

#[test]
fn every_prototype_command_has_examples() {
    for verb in
        ["status", "check-access", "plan", "update", "auto-update", "rollback", "refresh", "history", "diff", "resume"]
    {
        let finished = kiln().run(&["prototype", verb, "--help"]).success();
        assert!(finished.stdout.contains(&format!("kiln prototype {verb}")), "{finished}");
        assert!(finished.stdout.contains("Examples:"), "{finished}");
    }
    let finished = kiln().run(&["prototype", "--help"]).success();
    assert!(finished.stdout.contains("Exit codes: 0 success"), "{finished}");
}
