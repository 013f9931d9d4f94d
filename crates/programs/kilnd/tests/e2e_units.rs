//! Checks the units with the real systemd.

use std::path::Path;

use testkit::nspawn::{Blueprint, Machine};

const UNITS: [&str; 5] = [
    "kiln-identity.service",
    "kiln-config.service",
    "kiln-configured.target",
    "kiln-watch.service",
    "kiln-boot-loader.service",
];

/// A root with the units installed; the machine is not booted.
fn installed() -> Machine {
    let machine = Blueprint::new("units")
        .executable("/usr/bin/kilnd", "#!/bin/sh\n")
        .executable("/usr/sbin/update-grub", "#!/bin/sh\n")
        .file("/etc/systemd/system/kubelet.service", "[Service]\nExecStart=/bin/true\n")
        .file("/etc/kiln/current/kubelet.env", "")
        .executable("/etc/kiln/current/kubelet", "#!/bin/sh\n")
        .executable("/etc/kiln/current/containerd", "#!/bin/sh\n")
        .build();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../units");
    let mut units = UNITS.map(str::to_owned).to_vec();
    units.extend(["kubelet", "containerd"].map(|unit| format!("{unit}.service.d/zz-kiln.conf")));
    for unit in units {
        machine.write(&format!("/etc/systemd/system/{unit}"), &std::fs::read(folder.join(&unit)).unwrap(), 0o644);
    }
    machine
}

#[test]
fn systemd_analyze_verify_finds_no_error_and_no_cycle() {
    let machine = installed();
    let mut args = vec!["systemd-analyze", "verify", "--man=no", "--recursive-errors=yes"];
    args.extend(UNITS);
    args.extend(["kubelet.service", "containerd.service", "multi-user.target"]);
    let verified = machine.run(&args);
    assert_eq!((verified.code, verified.stderr.as_str()), (Some(0), ""), "{verified}");
    // Verify the check itself with a cycle.
    machine.write(
        "/etc/systemd/system/kiln-identity.service.d/cycle.conf",
        b"[Unit]\nAfter=kiln-watch.service\n",
        0o644,
    );
    let verified = machine.run(&args);
    assert!(verified.stderr.contains("ordering cycle"), "{verified}");
}

#[test]
fn watch_service_has_an_exposure_level_below_5() {
    let machine = installed();
    let args = ["systemd-analyze", "security", "--offline=yes", "--threshold=49", "--no-pager", "kiln-watch.service"];
    let judged = machine.run(&args);
    assert_eq!(judged.code, Some(0), "{judged}");
    assert!(judged.stdout.contains("Overall exposure level for kiln-watch.service"), "{judged}");
    // The same service without its sandboxing exceeds the threshold.
    machine.write("/etc/systemd/system/kiln-watch.service", b"[Service]\nExecStart=/usr/bin/kilnd watch\n", 0o644);
    assert_ne!(machine.run(&args).code, Some(0));
}
