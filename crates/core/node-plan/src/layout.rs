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
/// The custom data of this machine, base64 as the medium had it: the medium is there around the first start only.
pub const CUSTOM_DATA: &str = "/var/lib/kiln/custom-data";
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
/// What stood where kiln writes, from before kiln: one copy per path, named by [`before`]. Outlives generations.
pub const BEFORE: &str = "/var/lib/kiln/before";
/// The kubelet's client certificate and key, in one file that it renews itself. It stays on the disk of the system also where the
/// kubelet's folder is on a disk that does not survive: without it every such loss would need a new credential to join with.
pub const CLIENT_CERTIFICATE: &str = "/var/lib/kubelet/pki/kubelet-client-current.pem";

/// The kubelet's unit. It runs `/etc/kiln/current/kubelet $KUBELET_ARGS $KUBELET_REGISTER_ARGS` with the environment files
/// [`KUBELET_ENV`] and [`REGISTER_ENV`].
pub const KUBELET_UNIT: &str = "kubelet.service";
/// The runtime's unit. It runs `/etc/kiln/current/containerd --config /etc/kiln/current/containerd.toml` with the environment file
/// [`RUNTIME_ENV`].
pub const RUNTIME_UNIT: &str = "containerd.service";

/// Loads modules. Settings that modules bring come after it.
pub const MODULES_UNIT: &str = "systemd-modules-load.service";
/// Has the boot loader read the arguments of the kernel.
pub const BOOT_LOADER_UNIT: &str = "kiln-boot-loader.service";
/// Where an administrator's units are.
pub const UNITS: &str = "/etc/systemd/system";
/// The table of file systems.
pub const FSTAB: &str = "/etc/fstab";

/// In a generation: the document.
pub const DOCUMENT: &str = "config.json";
/// In a generation: what it found on the node and changed there.
pub const MANIFEST: &str = "manifest.json";
/// In a generation: the credential that the node joins with, as it was found.
pub const CREDENTIAL: &str = "credential";
/// In a generation: the certificate and key that the node was given, where that is how it joins.
pub const GIVEN_CERTIFICATE: &str = "client.pem";
/// In a generation: `KUBELET_ARGS` and proxies.
pub const KUBELET_ENV: &str = "kubelet.env";
/// In a generation: `KUBELET_REGISTER_ARGS`, which act when a node registers and never again. Apart, so that a change of a label
/// restarts nothing.
pub const REGISTER_ENV: &str = "register.env";
/// In a generation: the kubelet's configuration.
pub const KUBELET_CONFIG: &str = "kubelet.json";
/// In a generation: how the kubelet reaches its API server.
pub const KUBECONFIG: &str = "kubeconfig";
/// In a generation: how the kubelet gets its first certificate.
pub const BOOTSTRAP_KUBECONFIG: &str = "bootstrap-kubeconfig";
/// In a generation: the certificates of the cluster.
pub const CLUSTER_CA: &str = "ca.crt";
/// In a generation: the runtime's configuration.
pub const RUNTIME_CONFIG: &str = "containerd.toml";
/// In a generation: the runtime's environment.
pub const RUNTIME_ENV: &str = "containerd.env";

/// A file of the generation in force.
pub fn current(file: &str) -> String {
    format!("{CURRENT}/{file}")
}

/// Where the copy of a file from before kiln is kept.
pub fn before(path: &str) -> String {
    format!("{BEFORE}/{}", &kiln_types::sha256_hex(path.as_bytes())[..32])
}
