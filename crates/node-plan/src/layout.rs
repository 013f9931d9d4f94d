//! Where things are on a node. Every path is absolute; programs that work on another root put it in front.

/// Everything that kiln configures.
pub const ETC: &str = "/etc/kiln";
/// The link that says which generation holds. Kubelet and the runtime read below it.
pub const CURRENT: &str = "/etc/kiln/current";
/// A folder per generation.
pub const GENERATIONS: &str = "/etc/kiln/generations";
/// What the image says of kilnd: sources, keys, endpoints. Optional.
pub const SETTINGS: &str = "/etc/kiln/kilnd.json";
/// Public keys that documents may be signed with, `<key id>.pub`. When there is one, a document must be signed.
pub const KEYS: &str = "/etc/kiln/keys.d";
/// What is in the image: versions and places of programs, so that nothing executes a big program to ask.
pub const IMAGE: &str = "/usr/lib/kiln/image.json";
/// What outlives a restart.
pub const STATE: &str = "/var/lib/kiln/state.json";
/// The machine that this disk belongs to. Written last: what is cut off before it is a first boot again.
pub const VM_ID: &str = "/var/lib/kiln/vm-id";
/// The machines that this disk went through.
pub const ANCESTRY: &str = "/var/lib/kiln/ancestry.log";
/// Who works on the node's configuration: a lock.
pub const LOCK: &str = "/run/kiln/lock";
/// What this boot is, decided once by `kilnd identity`.
pub const BOOT: &str = "/run/kiln/boot.json";
/// The gate: kubelet does not start without it. On a file system that no restart survives.
pub const READY: &str = "/run/kiln/ready";
/// What kilnd did last, for people and programs.
pub const STATUS: &str = "/run/kiln/status.json";
