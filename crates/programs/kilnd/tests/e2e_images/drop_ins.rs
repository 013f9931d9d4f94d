//! Drop-ins that sort after kilnd's.

use super::booted::ONE;
use super::booted::document::{max_pods, ovf_env};
use super::booted::stage::Stage;

/// The journal of the unit that opens the gate.
const CONFIG: &str = "kiln-config.service";

#[test]
fn gate_stays_closed_while_another_drop_in_sets_exec_start() {
    for (unit, program) in
        [("kubelet.service", "/usr/bin/kubelet"), ("containerd.service", "/usr/bin/stand-in-containerd")]
    {
        let path = format!("/etc/systemd/system/{unit}.d/zzz-local.conf");
        let line = format!("[Service]\nExecStart=\nExecStart={program} --local\n");
        let mut machine = Stage::with_fakes("local").file(&path, line).build();
        machine.hardware("dmi/product_uuid", ONE);
        machine.hardware("cd/ovf-env.xml", ovf_env("node-1", Some(&max_pods(1, 30))));
        machine.boot();
        let expected = format!("`{unit}` runs `{program}` instead of `/etc/kiln/current/");
        machine.wait_until("kilnd refuses to open the gate", |machine| {
            let journal = machine.journal(Some(CONFIG));
            (journal.contains(&expected) && journal.contains(&path)).then_some(())
        });
        assert!(!machine.exists("/run/kiln/ready"));
        assert_eq!(Stage::kubelet_starts(&machine), Vec::<String>::new());
        // kilnd tries again by itself.
        machine.shell(&format!("rm {path}; systemctl daemon-reload"));
        Stage::wait_for_kubelet(&machine, 1);
        assert!(machine.exists("/run/kiln/ready"));
    }
}
