//! What the help of each command shows.

pub(super) const CHAIN: &str = "Examples:
  kiln boot chain
      The way to the boot's own goal, on this machine, byte for byte as systemd prints it.
  kiln boot chain kubelet.service --fuzz 500ms --capture boot.txt
      With what came within half a second of the last.";

pub(super) const BLAME: &str = "Examples:
  kiln boot blame
  kiln boot blame --capture boot.txt --output json
      Each unit that took time, in microseconds.";

pub(super) const TIME: &str = "Examples:
  kiln boot time
  kiln boot time --capture boot.txt --output json
      Each phase in microseconds; one that the machine does not have is null.";

pub(super) const EXPLAIN: &str = "Examples:
  kiln boot explain
      Why kubelet.service started when it did, on this machine.
  kiln boot explain --unit containerd.service --capture boot.txt --output json
  kiln boot explain --chain pasted.txt
      All that is left of a boot is what `systemd-analyze critical-chain` printed.";

pub(super) const WHAT_IF: &str = "Examples:
  kiln boot what-if --without systemd-networkd-wait-online.service
  kiln boot what-if --without-edge kubelet.service:network-online.target --capture boot.txt
      The unit stays, and kubelet does not wait for it.

Exit codes: 0 done, 1 failed, 2 usage, bad input, or a unit that the boot does not have.";

pub(super) const COMPARE: &str = "Examples:
  kiln boot compare before.txt after.txt
      What changed on the way to kubelet, by seconds.
  kiln boot compare before.txt after.txt --unit containerd.service --output json";

pub(super) const BUDGET: &str = "Examples:
  kiln boot budget limits.txt
  kiln boot budget limits.txt --capture boot.txt --output json
      For a pipeline: exit code 1 when a limit does not hold.";

pub(super) const LINT: &str = "Examples:
  kiln boot lint /usr/lib/systemd/system /etc/systemd/system
  kiln boot lint image/usr/lib/systemd/system --output json
      The units of an image that is unpacked in a folder.";

pub(super) const PLOT: &str = "Examples:
  kiln boot plot -o boot.svg
  kiln boot plot -o boot.svg --capture boot.txt --unit multi-user.target";

pub(super) const CAPTURE: &str = "Example:
  kiln boot capture -o boot.txt
      On the node; then anywhere: kiln boot explain --capture boot.txt";
