//! A machine with kilnd, its units, and stand-ins for kubelet and containerd.

use std::path::Path;

use testkit::nspawn::{Blueprint, Machine};

/// How many times faster than real the watch's time is: a generation counts as good after seconds instead of many.
const HURRY: u32 = 10;

/// Where an image has its units.
const UNITS: &str = "/usr/lib/systemd/system";

/// Where `--dmi` and `--cd` point to in these machines; the rest of the hardware is the default.
const PLACES: &str = "--dmi /hardware/dmi --cd /hardware/cd";

/// Appends its arguments to a file that outlives restarts, and answers for its health: well, unless its configuration or a file says no.
const KUBELET: &str = r#"#!/usr/bin/perl
use strict; use IO::Socket::INET;
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

/// What is in the image of these machines.
pub(crate) const IMAGE: &str =
    r#"{"kubelets": {"1.34.4": "/usr/bin/kubelet"}, "runtimes": {"1.6.20": "/usr/bin/stand-in-containerd"}}"#;

/// A machine with kilnd on it.
pub(crate) struct Stage;

impl Stage {
    /// kilnd and its units, with the hardware of these machines. Kubelet and containerd are not there.
    pub(crate) fn kilnd(name: &str) -> Blueprint {
        let units = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../units");
        let unit = |name: &str| std::fs::read(units.join(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        let mut blueprint = Blueprint::new(name).shared(Path::new(env!("CARGO_BIN_EXE_kilnd")), "/usr/bin/kilnd");
        for (service, target) in
            [("identity", "sysinit.target"), ("config", "multi-user.target"), ("watch", "multi-user.target")]
        {
            let name = format!("kiln-{service}.service");
            let words = match service {
                "config" => format!("boot {PLACES}"),
                "watch" => format!("watch {PLACES} --time-scale {HURRY}"),
                _ => format!("{service} {PLACES}"),
            };
            let line = format!("[Service]\nExecStart=\nExecStart=/usr/bin/kilnd {words}\n");
            blueprint = blueprint
                .file(&format!("{UNITS}/{name}"), unit(&name))
                .file(&format!("{UNITS}/{name}.d/50-test.conf"), line)
                .link(&format!("{UNITS}/{target}.wants/{name}"), &format!("../{name}"));
        }
        for name in ["kiln-configured.target", "kubelet.service.d/10-kiln.conf", "containerd.service.d/10-kiln.conf"] {
            blueprint = blueprint.file(&format!("{UNITS}/{name}"), unit(name));
        }
        let target = "kiln-configured.target";
        blueprint.link(&format!("{UNITS}/multi-user.target.wants/{target}"), &format!("../{target}"))
    }

    /// The same with stand-ins.
    pub(crate) fn with_stand_ins(name: &str) -> Blueprint {
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

    /// The arguments of each start of the stand-in kubelet.
    pub(crate) fn kubelet_starts(machine: &Machine) -> Vec<String> {
        machine.read("/var/lib/stand-in/kubelet").unwrap_or_default().lines().map(str::to_owned).collect()
    }

    /// Waits until the stand-in kubelet was started this often.
    #[track_caller]
    pub(crate) fn wait_for_kubelet(machine: &Machine, times: usize) -> Vec<String> {
        machine.wait_until(&format!("kubelet was started {times} times"), |machine| {
            Some(Self::kubelet_starts(machine)).filter(|starts| starts.len() >= times)
        })
    }

    /// Makes the waits of `kilnd boot` shorter, while the machine is off.
    pub(crate) fn hurry(machine: &Machine, times: u32) {
        let line = format!("[Service]\nExecStart=\nExecStart=/usr/bin/kilnd boot {PLACES} --time-scale {times}\n");
        machine.write("/etc/systemd/system/kiln-config.service.d/60-hurry.conf", line.as_bytes(), 0o644);
    }

    /// A file of the status, as JSON.
    pub(crate) fn json(machine: &Machine, path: &str) -> serde_json::Value {
        let text = machine.read(path).unwrap_or_else(|| panic!("no {path}\n{}", machine.journal(None)));
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{path}: {error}\n{text}"))
    }

    /// The number of the generation that was seen healthy last.
    pub(crate) fn committed(machine: &Machine) -> Option<u64> {
        let state: serde_json::Value = serde_json::from_str(&machine.read("/var/lib/kiln/state.json")?).ok()?;
        state["committed"]["number"].as_u64()
    }

    /// Waits until a generation was seen healthy.
    #[track_caller]
    pub(crate) fn wait_committed(machine: &Machine, number: u64) {
        let seen = |machine: &Machine| (Self::committed(machine) == Some(number)).then_some(());
        machine.wait_until(&format!("generation {number} was seen healthy"), seen);
    }
}

/// How many pods kubelet may run, by its configuration in force.
pub(crate) fn pods(machine: &Machine) -> Option<u64> {
    let text = machine.read("/etc/kiln/current/kubelet.json")?;
    serde_json::from_str::<serde_json::Value>(&text).ok()?["maxPods"].as_u64()
}
