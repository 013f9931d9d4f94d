//! Enumerations of the configuration.

use super::declare::enumeration;

enumeration! {
    /// How the node authenticates.
    BootstrappingAuthMethod {
        Unspecified = 0 "BOOTSTRAPPING_AUTH_METHOD_UNSPECIFIED",
        BootstrapToken = 1 "BOOTSTRAPPING_AUTH_METHOD_BOOTSTRAP_TOKEN",
        SecureTlsBootstrapping = 2 "BOOTSTRAPPING_AUTH_METHOD_SECURE_TLS_BOOTSTRAPPING",
        ArcMsi = 3 "BOOTSTRAPPING_AUTH_METHOD_ARC_MSI",
        AzureMsi = 4 "BOOTSTRAPPING_AUTH_METHOD_AZURE_MSI",
    }
}

enumeration! {
    /// How the kubelet gets its credential.
    ClusterJoinMethod {
        Unspecified = 0 "CLUSTER_JOIN_METHOD_UNSPECIFIED",
        GenerateCsr = 1 "CLUSTER_JOIN_METHOD_GENERATE_CSR",
        UseBootstrappingAuth = 2 "CLUSTER_JOIN_METHOD_USE_BOOTSTRAPPING_AUTH",
    }
}

enumeration! {
    /// Type of the Azure VM.
    VmType {
        Unspecified = 0 "VM_TYPE_UNSPECIFIED",
        Standard = 1 "VM_TYPE_STANDARD",
        Vmss = 2 "VM_TYPE_VMSS",
    }
}

enumeration! {
    /// SKU of the load balancer.
    LoadBalancerSku {
        Unspecified = 0 "LOAD_BALANCER_SKU_UNSPECIFIED",
        Basic = 1 "LOAD_BALANCER_SKU_BASIC",
        Standard = 2 "LOAD_BALANCER_SKU_STANDARD",
    }
}

enumeration! {
    /// Runtime of workloads.
    WorkloadRuntime {
        Unspecified = 0 "WORKLOAD_RUNTIME_UNSPECIFIED",
        OciContainer = 1 "WORKLOAD_RUNTIME_OCI_CONTAINER",
    }
}

enumeration! {
    /// Disk with the kubelet's data.
    KubeletDisk {
        Unspecified = 0 "KUBELET_DISK_UNSPECIFIED",
        OsDisk = 1 "KUBELET_DISK_OS_DISK",
        TempDisk = 2 "KUBELET_DISK_TEMP_DISK",
    }
}

enumeration! {
    /// Network plugin of the cluster.
NetworkPlugin {
        Unspecified = 0 "NETWORK_PLUGIN_UNSPECIFIED",
        None = 1 "NETWORK_PLUGIN_NONE",
        Azure = 2 "NETWORK_PLUGIN_AZURE",
        Kubenet = 3 "NETWORK_PLUGIN_KUBENET",
    }
}

enumeration! {
    /// Network policy engine of the cluster.
NetworkPolicy {
        Unspecified = 0 "NETWORK_POLICY_UNSPECIFIED",
        None = 1 "NETWORK_POLICY_NONE",
        Azure = 2 "NETWORK_POLICY_AZURE",
        Calico = 3 "NETWORK_POLICY_CALICO",
    }
}
