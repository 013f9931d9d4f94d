//! The machine that the tests boot: kilnd, its units, and a fake kubelet and containerd.

use std::path::Path;

use kiln_node_plan::layout::PACKAGED_UNITS;
use testkit::nspawn::{Blueprint, Machine};

/// Speeds up the clock of `kilnd watch`, so that a generation is committed within seconds.
const TIME_SCALE: u32 = 10;

/// The unit directory of the image.
const UNITS: &str = "/usr/lib/systemd/system";

/// Where the machines have their simulated hardware; other locations are the defaults.
const LOCATIONS: &str = "--dmi /hardware/dmi --cd /hardware/cd";

/// A fake kubelet. It appends its arguments to a file that survives reboots, and serves `/healthz`: 200, unless its configuration contains
/// `sick` or the file `/var/lib/stand-in/sick` exists. With `crashes` in its configuration it lives two seconds, which are 20 s of the clock
/// of `kilnd watch`.
pub(crate) const KUBELET: &str = r#"#!/usr/bin/perl
use strict; use IO::Socket::INET;
my $crashes = grep { /crashes/ } do { local @ARGV = ('/etc/kiln/current/kubelet.json'); <> };
alarm 2 if $crashes;
open(my $log, '>>', '/var/lib/stand-in/kubelet') or die; print $log join(' ', @ARGV), "\n"; close $log;
my $server = IO::Socket::INET->new(LocalAddr => '127.0.0.1:10248', Listen => 5, ReuseAddr => 1) or die "$!";
while (my $client = $server->accept) {
    while (my $line = <$client>) { last if $line =~ /^\r?\n$/ }
    my $sick = -e '/var/lib/stand-in/sick' || grep { /sick/ } do { local @ARGV = ('/etc/kiln/current/kubelet.json'); <> };
    print $client $sick ? "HTTP/1.1 500 Sick\r\nContent-Length: 0\r\n\r\n" : "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    close $client;
}
"#;

const CONTAINERD: &str = "#!/bin/sh\necho \"$*\" >>/var/lib/stand-in/containerd\nexec sleep infinity\n";

/// The `image.json` of these machines.
pub(crate) const IMAGE: &str =
    r#"{"kubelets": {"1.34.4": "/usr/bin/kubelet"}, "runtimes": {"1.6.20": "/usr/bin/stand-in-containerd"}}"#;

/// Constructors of machines with kilnd, and checks on them.
pub(crate) struct Stage;

impl Stage {
    /// A machine whose image contains kilnd and its units, without kubelet and containerd.
    pub(crate) fn kilnd(name: &str) -> Blueprint {
        let wants = [
            ("sysinit.target", "kiln-identity.service"),
            ("multi-user.target", "kiln-config.service"),
            ("multi-user.target", "kiln-watch.service"),
            ("multi-user.target", "kiln-configured.target"),
        ];
        wants.iter().fold(Self::with_units_in(UNITS, name), |blueprint, (target, unit)| {
            blueprint.link(&format!("{UNITS}/{target}.wants/{unit}"), &format!("../{unit}"))
        })
    }

    /// A machine with the files of kilnd's package, which have no effect before `kilnd enable`.
    pub(crate) fn packaged(name: &str) -> Blueprint {
        Self::with_units_in(PACKAGED_UNITS, name)
    }

    fn with_units_in(folder: &str, name: &str) -> Blueprint {
        let units = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../units");
        let mut blueprint = Blueprint::new(name).shared(Path::new(env!("CARGO_BIN_EXE_kilnd")), "/usr/bin/kilnd");
        for (path, line) in Self::test_drop_ins() {
            blueprint = blueprint.file(&path, line);
        }
        for subfolder in [".", "kubelet.service.d", "containerd.service.d"] {
            let entries =
                std::fs::read_dir(units.join(subfolder)).unwrap_or_else(|error| panic!("{subfolder}: {error}"));
            for path in entries.map(|entry| entry.expect("an entry").path()).filter(|path| path.is_file()) {
                let text = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                blueprint = blueprint.file(&format!("{folder}/{subfolder}/{name}"), text);
            }
        }
        blueprint
    }

    /// Drop-ins that point kiln's services at the simulated hardware.
    pub(crate) fn test_drop_ins() -> [(String, String); 3] {
        let watch = format!("watch {LOCATIONS} --time-scale {TIME_SCALE}");
        let commands =
            [("identity", format!("identity {LOCATIONS}")), ("config", format!("boot {LOCATIONS}")), ("watch", watch)];
        commands.map(|(service, command)| {
            let path = format!("{UNITS}/kiln-{service}.service.d/50-test.conf");
            (path, format!("[Service]\nExecStart=\nExecStart=/usr/bin/kilnd {command}\n"))
        })
    }

    /// The same with a fake kubelet and containerd.
    pub(crate) fn with_fakes(name: &str) -> Blueprint {
        let service = |program: &str| format!("[Unit]\nDescription=stand-in\n[Service]\nExecStart={program}\n");
        Self::kilnd(name)
            .file("/usr/lib/kiln/image.json", IMAGE)
            .file("/var/lib/stand-in/.keep", "")
            .executable("/usr/bin/kubelet", KUBELET)
            .executable("/usr/bin/stand-in-containerd", CONTAINERD)
            .file(&format!("{UNITS}/kubelet.service"), service("/usr/bin/kubelet"))
            .file(&format!("{UNITS}/containerd.service"), service("/usr/bin/stand-in-containerd"))
            .link(&format!("{UNITS}/multi-user.target.wants/kubelet.service"), "../kubelet.service")
    }

    /// The arguments of each start of the fake kubelet.
    pub(crate) fn kubelet_starts(machine: &Machine) -> Vec<String> {
        machine.read("/var/lib/stand-in/kubelet").unwrap_or_default().lines().map(str::to_owned).collect()
    }

    /// Waits until the fake kubelet has been started this many times.
    #[track_caller]
    pub(crate) fn wait_for_kubelet(machine: &Machine, times: usize) -> Vec<String> {
        machine.wait_until(&format!("kubelet has been started {times} times"), |machine| {
            Some(Self::kubelet_starts(machine)).filter(|starts| starts.len() >= times)
        })
    }

    /// Shortens the timeouts of `kilnd boot`. The machine must be off.
    pub(crate) fn speed_up_boot(machine: &Machine, times: u32) {
        let line = format!("[Service]\nExecStart=\nExecStart=/usr/bin/kilnd boot {LOCATIONS} --time-scale {times}\n");
        machine.write("/etc/systemd/system/kiln-config.service.d/60-time-scale.conf", line.as_bytes(), 0o644);
    }

    /// Reads a JSON file of the machine.
    pub(crate) fn json(machine: &Machine, path: &str) -> serde_json::Value {
        let text = machine.read(path).unwrap_or_else(|| panic!("no {path}\n{}", machine.journal(None)));
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}\n{text}"))
    }

    /// The number of the committed generation.
    pub(crate) fn committed(machine: &Machine) -> Option<u64> {
        let state: serde_json::Value = serde_json::from_str(&machine.read("/var/lib/kiln/state.json")?).ok()?;
        state["committed"]["number"].as_u64()
    }

    /// Waits until a generation is committed.
    #[track_caller]
    pub(crate) fn wait_committed(machine: &Machine, number: u64) {
        let is_committed = |machine: &Machine| (Self::committed(machine) == Some(number)).then_some(());
        machine.wait_until(&format!("generation {number} is committed"), is_committed);
    }
}

/// `maxPods` of the kubelet configuration in force.
pub(crate) fn pods(machine: &Machine) -> Option<u64> {
    let text = machine.read("/etc/kiln/current/kubelet.json")?;
    serde_json::from_str::<serde_json::Value>(&text).ok()?["maxPods"].as_u64()
}
