//! The unit files of other projects' packages and images, with their directives. Paths and names are those of the originals.

/// `kubelet.service` of the Kubernetes packages.
pub(crate) const KUBEADM_KUBELET: &str = "\
[Unit]
Description=kubelet: The Kubernetes Node Agent
Wants=network-online.target
After=network-online.target

[Service]
ExecStart=/usr/bin/kubelet
Restart=always
StartLimitInterval=0
RestartSec=10

[Install]
WantedBy=multi-user.target
";

/// `10-kubeadm.conf` of the package kubeadm. Its name sorts after every name that starts with `10-kiln`.
pub(crate) const KUBEADM_DROP_IN: &str = "\
[Service]
Environment=\"KUBELET_KUBECONFIG_ARGS=--bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf --kubeconfig=/etc/kubernetes/kubelet.conf\"
Environment=\"KUBELET_CONFIG_ARGS=--config=/var/lib/kubelet/config.yaml\"
EnvironmentFile=-/var/lib/kubelet/kubeadm-flags.env
EnvironmentFile=-/etc/default/kubelet
ExecStart=
ExecStart=/usr/bin/kubelet $KUBELET_KUBECONFIG_ARGS $KUBELET_CONFIG_ARGS $KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS
";

/// `kubelet.service` of an AKS node image. CSE, the script that AKS runs at a node's first boot, moves the kubelet to `/opt/bin`, and writes
/// the environment file and the scripts of the first two `ExecStartPre=` lines.
pub(crate) const AKS_KUBELET: &str = "\
[Unit]
Description=Kubelet
ConditionPathExists=/opt/bin/kubelet
Wants=network-online.target containerd.service
After=network-online.target containerd.service

[Service]
Restart=always
RestartSec=2
EnvironmentFile=/etc/default/kubelet
SuccessExitStatus=143
ExecStartPre=/bin/bash /opt/azure/containers/kubelet.sh
ExecStartPre=/bin/bash /opt/azure/containers/validate-kubelet-credentials.sh
ExecStartPre=/bin/mkdir -p /var/lib/kubelet
ExecStartPre=/bin/mkdir -p /var/lib/cni
ExecStartPre=/bin/bash -c \"if [ $(mount | grep \\\"/var/lib/kubelet\\\" | wc -l) -le 0 ] ; then /bin/mount --bind /var/lib/kubelet /var/lib/kubelet ; fi\"
ExecStartPre=/bin/mount --make-shared /var/lib/kubelet
ExecStart=/opt/bin/kubelet \\
        --enable-server \\
        --node-labels=\"${KUBELET_NODE_LABELS}\" \\
        --v=2 \\
        --volume-plugin-dir=/etc/kubernetes/volumeplugins \\
        $KUBELET_TLS_BOOTSTRAP_FLAGS \\
        $KUBELET_CONFIG_FILE_FLAGS \\
        $KUBELET_CONTAINERD_FLAGS \\
        $KUBELET_FLAGS

[Install]
WantedBy=multi-user.target
";

/// `10-tlsbootstrap.conf` of an AKS node image.
pub(crate) const AKS_TLS_BOOTSTRAP: &str = "\
[Service]
Environment=\"KUBELET_TLS_BOOTSTRAP_FLAGS=--kubeconfig /var/lib/kubelet/kubeconfig --bootstrap-kubeconfig /var/lib/kubelet/bootstrap-kubeconfig\"
";

/// `containerd.service` of an AKS node image, with the same obstacles as its kubelet: a condition, an environment file and a command that
/// need files which only CSE writes.
pub(crate) const AKS_CONTAINERD: &str = "\
[Unit]
Description=containerd daemon
ConditionPathExists=/etc/containerd/config.toml
Wants=network-online.target
After=network-online.target

[Service]
EnvironmentFile=/etc/default/containerd
ExecStartPre=-/sbin/modprobe overlay
ExecStartPre=/bin/test -e /opt/azure/containers/provision.complete
ExecStart=/usr/bin/containerd
Delegate=yes
KillMode=process
Restart=always
LimitNOFILE=1048576

[Install]
WantedBy=multi-user.target
";

/// `exec_start.conf` of containerd in an AKS node image.
pub(crate) const AKS_CONTAINERD_DROP_IN: &str = "[Service]\nExecStart=\nExecStart=/usr/bin/containerd\n";
