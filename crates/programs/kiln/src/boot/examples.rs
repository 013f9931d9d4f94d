//! Examples in the help texts.

pub(super) const CHAIN: &str = "Examples:
  kiln boot chain
      The critical chain of the default target on this machine, byte for byte as systemd-analyze prints it.
  kiln boot chain kubelet.service --fuzz 500ms --capture boot.txt
      Also show units that became active within 500 ms of the last one.";

pub(super) const BLAME: &str = "Examples:
  kiln boot blame
  kiln boot blame --capture boot.txt --output json
      Start-up time of each unit, in microseconds.";

pub(super) const TIME: &str = "Examples:
  kiln boot time
  kiln boot time --capture boot.txt --output json
      Duration of each phase, in microseconds; a phase that the machine does not have is null.";

pub(super) const EXPLAIN: &str = "Examples:
  kiln boot explain
      Why kubelet.service started when it did, on this machine.
  kiln boot explain containerd.service --capture boot.txt --output json
  kiln boot explain --chain pasted.txt
      From the saved output of `systemd-analyze critical-chain`.";

pub(super) const WHAT_IF: &str = "Examples:
  kiln boot what-if --without systemd-networkd-wait-online.service
  kiln boot what-if --without-edge kubelet.service:network-online.target --capture boot.txt
      Keep the unit, but let kubelet.service start without waiting for it.

Exit codes: 0 success, 1 failed, 2 invalid usage or input, or unknown unit.";

pub(super) const COMPARE: &str = "Examples:
  kiln boot compare before.txt after.txt
      Which units made kubelet.service start earlier or later.
  kiln boot compare before.txt after.txt containerd.service --output json";

pub(super) const BUDGET: &str = "Examples:
  kiln boot budget limits.txt
  kiln boot budget limits.txt --capture boot.txt --output json
      For CI: exit code 1 if a limit is exceeded.";

pub(super) const LINT: &str = "Examples:
  kiln boot lint /usr/lib/systemd/system /etc/systemd/system
  kiln boot lint image/usr/lib/systemd/system --output json
      The units of an unpacked image.
  kiln boot lint kubelet.service containerd.service
      Only these two, in the context of the folder that they are in.";

pub(super) const PLOT: &str = "Examples:
  kiln boot plot -o boot.svg
  kiln boot plot multi-user.target -o boot.svg --capture boot.txt";

pub(super) const CAPTURE: &str = "Example:
  kiln boot capture -o boot.txt
      Run this on the node, then analyse the file anywhere: kiln boot explain --capture boot.txt";
