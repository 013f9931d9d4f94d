//! Paths on a node. All of them are absolute and are looked up below `--root`.

/// Configuration of kiln, and the generations.
pub const ETC: &str = "/etc/kiln";
/// The link to the generation in force. Kubelet and containerd read their files through it.
pub const CURRENT: &str = "/etc/kiln/current";
/// One folder per generation.
pub const GENERATIONS: &str = "/etc/kiln/generations";
/// Settings of kilnd in the image: the pool and the cluster for which documents have to be signed ([`kiln_node_config::Binding`]). Optional.
pub const SETTINGS: &str = "/etc/kiln/kilnd.json";
/// Public keys for document signatures, `<key id>.pub`. If there is one, documents must be signed.
pub const KEYS: &str = "/etc/kiln/keys.d";
/// The content of the image ([`crate::Image`]).
pub const IMAGE: &str = "/usr/lib/kiln/image.json";
/// The state ([`crate::State`]).
pub const STATE: &str = "/var/lib/kiln/state.json";
/// What the node remembers of its NodeState.
pub const NODE_STATE: &str = "/var/lib/kiln/node-state.json";
/// The VM id of the machine that owns this disk. Clone detection compares it with DMI. It is written last in a first boot, so that an
/// interrupted first boot is repeated.
pub const VM_ID: &str = "/var/lib/kiln/vm-id";
/// The custom data of this machine, base64 as on the provisioning media, which Azure detaches after the first boot.
pub const CUSTOM_DATA: &str = "/var/lib/kiln/custom-data";
/// The machines that had this disk or an ancestor of it.
pub const ANCESTRY: &str = "/var/lib/kiln/ancestry.log";
/// The lock that a process holds while it changes the node.
pub const LOCK: &str = "/run/kiln/lock";
/// The kind of this boot, written by `kilnd identity`.
pub const BOOT: &str = "/run/kiln/boot.json";
/// The gate: kubelet and containerd do not start without it. Gone after a reboot.
pub const READY: &str = "/run/kiln/ready";
/// The status of the last command.
pub const STATUS: &str = "/run/kiln/status.json";
/// Backups of files from before kiln, one per path, named by [`before`]. They outlive generations.
pub const BEFORE: &str = "/var/lib/kiln/before";
/// The kubelet's client certificate and key, in one file that the kubelet rotates. It is on the OS disk even if the kubelet's data is on the
/// temporary disk: otherwise a node that loses that disk would need a new join credential.
pub const CLIENT_CERTIFICATE: &str = "/var/lib/kubelet/pki/kubelet-client-current.pem";

/// The kubelet's unit. It runs `/etc/kiln/current/kubelet $KUBELET_ARGS $KUBELET_REGISTER_ARGS` with the environment files
/// [`KUBELET_ENV`] and [`REGISTER_ENV`].
pub const KUBELET_UNIT: &str = "kubelet.service";
/// The runtime's unit. It runs `/etc/kiln/current/containerd --config /etc/kiln/current/containerd.toml` with the environment file
/// [`RUNTIME_ENV`].
pub const RUNTIME_UNIT: &str = "containerd.service";

/// Loads kernel modules. Settings that depend on modules are applied after it.
pub const MODULES_UNIT: &str = "systemd-modules-load.service";
/// Updates the boot loader configuration after a change of kernel arguments.
pub const BOOT_LOADER_UNIT: &str = "kiln-boot-loader.service";
/// The units and drop-ins of the package. systemd does not read this folder: `kilnd enable` links them into [`UNITS`].
pub const PACKAGED_UNITS: &str = "/usr/lib/kiln/units";
/// On the OS disk, which exists at every boot. On the temporary disk the swap file could be lost, and pods count on it.
pub const SWAP_FILE: &str = "/var/lib/kiln/swapfile";
/// The machine id of the machine on which `kilnd enable` found a running kubelet. There `kilnd disable` also restores the files of the
/// generations.
pub const ADOPTED: &str = "/var/lib/kiln/adopted";
/// The folder of local unit files.
pub const UNITS: &str = "/etc/systemd/system";
pub const FSTAB: &str = "/etc/fstab";

/// In a generation: the document.
pub const DOCUMENT: &str = "config.json";
/// In a generation: what it changed, and what was there before ([`crate::Manifest`]).
pub const MANIFEST: &str = "manifest.json";
/// In a generation: the join credential.
pub const CREDENTIAL: &str = "credential";
/// In a generation: the client certificate and key, if they are the join credential.
pub const GIVEN_CERTIFICATE: &str = "client.pem";
/// In a generation: `KUBELET_ARGS` and proxies.
pub const KUBELET_ENV: &str = "kubelet.env";
/// In a generation: `KUBELET_REGISTER_ARGS`, which only matter when the node registers. A separate file, so that changing a label does not
/// restart the kubelet.
pub const REGISTER_ENV: &str = "register.env";
/// In a generation: the kubelet's configuration.
pub const KUBELET_CONFIG: &str = "kubelet.json";
/// In a generation: the kubelet's kubeconfig.
pub const KUBECONFIG: &str = "kubeconfig";
/// In a generation: the kubeconfig for requesting the first certificate.
pub const BOOTSTRAP_KUBECONFIG: &str = "bootstrap-kubeconfig";
/// In a generation: the certificate authority of the cluster.
pub const CLUSTER_CA: &str = "ca.crt";
/// In a generation: containerd's configuration.
pub const RUNTIME_CONFIG: &str = "containerd.toml";
/// In a generation: containerd's environment.
pub const RUNTIME_ENV: &str = "containerd.env";

/// A file of the generation in force.
pub fn current(file: &str) -> String {
    format!("{CURRENT}/{file}")
}

/// The path of the backup of a file from before kiln.
pub fn before(path: &str) -> String {
    format!("{BEFORE}/{}", &kiln_types::sha256_hex(path.as_bytes())[..32])
}
