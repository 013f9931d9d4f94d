//! Enumerations of the configuration.

use super::declare::enumeration;

enumeration! {
    /// What the node proves itself with.
    BootstrappingAuthMethod {
        Unspecified = 0 "BOOTSTRAPPING_AUTH_METHOD_UNSPECIFIED",
        BootstrapToken = 1 "BOOTSTRAPPING_AUTH_METHOD_BOOTSTRAP_TOKEN",
        SecureTlsBootstrapping = 2 "BOOTSTRAPPING_AUTH_METHOD_SECURE_TLS_BOOTSTRAPPING",
        ArcMsi = 3 "BOOTSTRAPPING_AUTH_METHOD_ARC_MSI",
        AzureMsi = 4 "BOOTSTRAPPING_AUTH_METHOD_AZURE_MSI",
    }
}

enumeration! {
    /// What kubelet gets.
    ClusterJoinMethod {
        Unspecified = 0 "CLUSTER_JOIN_METHOD_UNSPECIFIED",
        GenerateCsr = 1 "CLUSTER_JOIN_METHOD_GENERATE_CSR",
        UseBootstrappingAuth = 2 "CLUSTER_JOIN_METHOD_USE_BOOTSTRAPPING_AUTH",
    }
}

enumeration! {
    /// What kind of machine Azure has.
    VmType {
        Unspecified = 0 "VM_TYPE_UNSPECIFIED",
        Standard = 1 "VM_TYPE_STANDARD",
        Vmss = 2 "VM_TYPE_VMSS",
    }
}

enumeration! {
    /// The kind of load balancer.
    LoadBalancerSku {
        Unspecified = 0 "LOAD_BALANCER_SKU_UNSPECIFIED",
        Basic = 1 "LOAD_BALANCER_SKU_BASIC",
        Standard = 2 "LOAD_BALANCER_SKU_STANDARD",
    }
}

enumeration! {
    /// What runs workloads.
    WorkloadRuntime {
        Unspecified = 0 "WORKLOAD_RUNTIME_UNSPECIFIED",
        OciContainer = 1 "WORKLOAD_RUNTIME_OCI_CONTAINER",
    }
}

enumeration! {
    /// Where the kubelet's files are.
    KubeletDisk {
        Unspecified = 0 "KUBELET_DISK_UNSPECIFIED",
        OsDisk = 1 "KUBELET_DISK_OS_DISK",
        TempDisk = 2 "KUBELET_DISK_TEMP_DISK",
    }
}

enumeration! {
    /// A network plugin.
    NetworkPlugin {
        Unspecified = 0 "NETWORK_PLUGIN_UNSPECIFIED",
        None = 1 "NETWORK_PLUGIN_NONE",
        Azure = 2 "NETWORK_PLUGIN_AZURE",
        Kubenet = 3 "NETWORK_PLUGIN_KUBENET",
    }
}

enumeration! {
    /// A network policy.
    NetworkPolicy {
        Unspecified = 0 "NETWORK_POLICY_UNSPECIFIED",
        None = 1 "NETWORK_POLICY_NONE",
        Azure = 2 "NETWORK_POLICY_AZURE",
        Calico = 3 "NETWORK_POLICY_CALICO",
    }
}
