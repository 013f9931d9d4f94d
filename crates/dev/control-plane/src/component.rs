//! The servers of a control plane and their arguments.

use std::fmt;
use std::path::Path;

use crate::Options;
use crate::ports::Ports;

/// A program of the control plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Component {
    Etcd,
    ApiServer,
    /// Runs the controllers for service accounts, budgets, deployments and certificates.
    ControllerManager,
    Scheduler,
}

impl Component {
    /// All components, in start order.
    pub const ALL: [Self; 4] = [Self::Etcd, Self::ApiServer, Self::ControllerManager, Self::Scheduler];

    /// The name of the program.
    pub fn program(self) -> &'static str {
        match self {
            Self::Etcd => "etcd",
            Self::ApiServer => "kube-apiserver",
            Self::ControllerManager => "kube-controller-manager",
            Self::Scheduler => "kube-scheduler",
        }
    }

    /// Whether a control plane with these options runs it.
    pub(crate) fn is_in(self, options: &Options) -> bool {
        match self {
            Self::Etcd | Self::ApiServer => true,
            Self::ControllerManager => options.controller_manager,
            Self::Scheduler => options.scheduler,
        }
    }

    pub(crate) fn arguments(self, folder: &Path, ports: Ports, options: &Options) -> Vec<String> {
        match self {
            Self::Etcd => etcd(folder, ports),
            Self::ApiServer => api_server(folder, ports, options),
            Self::ControllerManager => controller_manager(folder, options),
            Self::Scheduler => client(folder, self),
        }
    }
}

impl fmt::Display for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.program())
    }
}

/// etcd requires certificates although it listens on loopback: otherwise two control planes that chose the same port would write into each
/// other's store.
fn etcd(folder: &Path, Ports { etcd, etcd_peer, .. }: Ports) -> Vec<String> {
    let pki = |name: &str| folder.join("pki").join(name).display().to_string();
    let client = format!("https://127.0.0.1:{etcd}");
    let peer = format!("https://127.0.0.1:{etcd_peer}");
    vec![
        format!("--data-dir={}", folder.join("etcd").display()),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=default={peer}"),
        format!("--cert-file={}", pki("server.crt")),
        format!("--key-file={}", pki("server.key")),
        format!("--trusted-ca-file={}", pki("ca.crt")),
        "--client-cert-auth".to_owned(),
        format!("--peer-cert-file={}", pki("server.crt")),
        format!("--peer-key-file={}", pki("server.key")),
        format!("--peer-trusted-ca-file={}", pki("ca.crt")),
        "--peer-client-cert-auth".to_owned(),
        "--logger=zap".to_owned(),
        "--log-level=warn".to_owned(),
    ]
}

fn api_server(folder: &Path, ports: Ports, options: &Options) -> Vec<String> {
    let pki = |name: &str| folder.join("pki").join(name).display().to_string();
    let mut arguments = vec![
        format!("--etcd-servers=https://127.0.0.1:{}", ports.etcd),
        format!("--etcd-cafile={}", pki("ca.crt")),
        format!("--etcd-certfile={}", pki("server.crt")),
        format!("--etcd-keyfile={}", pki("server.key")),
        "--bind-address=127.0.0.1".to_owned(),
        "--advertise-address=127.0.0.1".to_owned(),
        format!("--secure-port={}", ports.api_server),
        // The endpoints of the service `kubernetes` must not be loopback addresses; the reconciler would log errors for ever.
        "--endpoint-reconciler-type=none".to_owned(),
        format!("--tls-cert-file={}", pki("server.crt")),
        format!("--tls-private-key-file={}", pki("server.key")),
        format!("--client-ca-file={}", pki("ca.crt")),
        // Its identity towards kubelets, for fetching logs.
        format!("--kubelet-client-certificate={}", pki("kubelet-client.crt")),
        format!("--kubelet-client-key={}", pki("kubelet-client.key")),
        format!("--service-account-key-file={}", pki("service-account.pub")),
        format!("--service-account-signing-key-file={}", pki("service-account.key")),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        "--service-cluster-ip-range=10.96.0.0/16".to_owned(),
        "--authorization-mode=Node,RBAC".to_owned(),
        "--enable-admission-plugins=NodeRestriction".to_owned(),
        "--enable-bootstrap-token-auth=true".to_owned(),
        "--allow-privileged=true".to_owned(),
        "--profiling=false".to_owned(),
    ];
    if !options.controller_manager {
        // No controller would create the service accounts that the plugin requires.
        arguments.push("--disable-admission-plugins=ServiceAccount".to_owned());
    }
    arguments.extend(options.api_server_arguments.iter().cloned());
    arguments
}

fn controller_manager(folder: &Path, options: &Options) -> Vec<String> {
    let pki = |name: &str| folder.join("pki").join(name).display().to_string();
    let mut arguments = client(folder, Component::ControllerManager);
    arguments.extend([
        "--use-service-account-credentials=true".to_owned(),
        format!("--root-ca-file={}", pki("ca.crt")),
        format!("--service-account-private-key-file={}", pki("service-account.key")),
        format!("--cluster-signing-cert-file={}", pki("ca.crt")),
        format!("--cluster-signing-key-file={}", pki("ca.key")),
        // Required for bootstrap tokens, and off by default.
        "--controllers=*,bootstrapsigner,tokencleaner".to_owned(),
    ]);
    arguments.extend(options.controller_manager_arguments.iter().cloned());
    arguments
}

/// The common arguments of the API server's clients. They serve nothing, which saves a port.
fn client(folder: &Path, component: Component) -> Vec<String> {
    let kubeconfig = folder.join(format!("{component}.kubeconfig"));
    let mut arguments: Vec<String> = ["kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig"]
        .iter()
        .map(|flag| format!("--{flag}={}", kubeconfig.display()))
        .collect();
    arguments.extend(["--secure-port=0", "--bind-address=127.0.0.1", "--leader-elect=false"].map(str::to_owned));
    arguments
}
