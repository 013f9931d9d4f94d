//! Power cuts during a change, on a real systemd.

mod booted;

use booted::ONE;
use booted::document::{max_pods, ovf_env};
use booted::stage::{Stage, pods};

#[test]
fn power_cut_during_a_change_leaves_the_old_or_the_new_generation() {
    let mut machine = Stage::with_fakes("middle").build();
    machine.hardware("dmi/product_uuid", ONE);
    machine.hardware("cd/ovf-env.xml", ovf_env("node-1", Some(&max_pods(1, 30))));
    machine.boot();
    Stage::wait_committed(&machine, 1);
    machine.shell("systemctl mask --now kiln-watch.service");
    let mut changed = Vec::new();
    for round in 0..6_u32 {
        let number = u64::from(round) + 2;
        machine.write("/root/config.json", &max_pods(number, 100 + round).bytes(), 0o644);
        let before = pods(&machine).expect("a configuration");
        // strace kills kilnd at its n-th rename; n grows with each round.
        let line = format!(
            "strace --quiet=all --output=/dev/null --trace=renameat2,renameat,rename \
             --inject=renameat2,renameat,rename:signal=KILL:when={} \
             kilnd apply --config /root/config.json --dmi /hardware/dmi --force || true",
            round + 1
        );
        machine.shell(&line);
        machine.cut_power();
        machine.boot();
        machine.wait_for("kubelet.service", "active");
        let after = pods(&machine).expect("`current` points to a complete generation");
        assert!(after == before || after == u64::from(100 + round) || after == 30, "{before} {after}");
        changed.push(after != before);
        // The next run completes the change.
        machine.shell("kilnd apply --config /root/config.json --dmi /hardware/dmi --force");
        assert_eq!(pods(&machine), Some(u64::from(100 + round)));
    }
    assert!(changed.contains(&false), "the first rename is before the change");
}
