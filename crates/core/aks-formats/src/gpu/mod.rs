//! VM sizes with a GPU: vendor, supported operating systems and driver.

mod table;

use std::fmt;

/// GPU vendor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vendor {
    Nvidia,
    Amd,
}

/// Operating system that may support a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Os {
    Ubuntu,
    Windows,
    /// Azure Linux 2.
    AzureLinux,
    AzureLinux3,
}

impl Os {
    /// Parses a case-insensitive name.
    pub fn from_name(name: &str) -> Option<Self> {
        match name.to_ascii_lowercase().as_str() {
            "ubuntu" => Some(Self::Ubuntu),
            "windows" => Some(Self::Windows),
            "azurelinux" => Some(Self::AzureLinux),
            "azurelinux3" => Some(Self::AzureLinux3),
            _ => None,
        }
    }
}

/// Driver series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriverKind {
    /// CUDA driver of the first NC sizes.
    Cuda,
    /// CUDA driver with long-term support.
    CudaLts,
    Grid,
    GridV20,
}

impl fmt::Display for DriverKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cuda => "cuda",
            Self::CudaLts => "cuda-lts",
            Self::Grid => "grid",
            Self::GridV20 => "grid-v20",
        })
    }
}

/// Driver of a VM size.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Driver {
    pub kind: DriverKind,
    pub version: String,
    /// Suffix of the tag of the driver's container image.
    pub image_sha: String,
}

/// The last driver version that supports the first NC sizes.
pub const FIRST_CUDA_VERSION: &str = "470.82.01";

fn normalize(size: &str) -> String {
    let size = size.to_ascii_lowercase();
    size.strip_suffix("_promo").unwrap_or(&size).to_owned()
}

fn row(size: &str) -> Option<(Vendor, &'static [Os])> {
    let size = normalize(size);
    table::SIZES.into_iter().find(|(name, _, _)| *name == size).map(|(_, vendor, systems)| (vendor, systems))
}

/// Returns the GPU vendor of a size, if it has a GPU.
pub fn vendor(size: &str) -> Option<Vendor> {
    row(size).map(|(vendor, _)| vendor)
}

/// Whether an operating system supports the GPU of a size.
pub fn works_on(size: &str, os: Os) -> bool {
    row(size).is_some_and(|(_, systems)| systems.contains(&os))
}

/// Whether the node image installs a driver for the size. It does for NVIDIA only.
pub fn installs_driver(size: &str) -> bool {
    vendor(size) == Some(Vendor::Nvidia)
}

/// Returns the driver series of a size.
pub fn driver_kind(size: &str) -> DriverKind {
    let size = normalize(size);
    if size.contains("_rtxpro6000bse_v6") {
        DriverKind::GridV20
    } else if size.ends_with("_a10_v5") || size.ends_with("_a10_v4") {
        DriverKind::Grid
    } else if size.starts_with("standard_nc") && !size.contains("_v") {
        DriverKind::Cuda
    } else {
        DriverKind::CudaLts
    }
}

/// Returns the driver that the Node Bootstrapping Variables specify for a size.
pub fn driver(size: &str) -> Driver {
    let kind = driver_kind(size);
    let (version, image_sha) = match kind {
        DriverKind::GridV20 => ("595.58.03", "20260609172331"),
        DriverKind::Grid => ("570.211.01", "20260522192315"),
        DriverKind::Cuda => (FIRST_CUDA_VERSION, "20260629214430"),
        DriverKind::CudaLts => ("580.159.04", "20260629214430"),
    };
    Driver { kind, version: version.to_owned(), image_sha: image_sha.to_owned() }
}

/// Whether the GPUs of a size are connected by NVSwitch, which needs NVIDIA Fabric Manager.
pub fn needs_fabric_manager(size: &str) -> bool {
    let size = normalize(size);
    // Sizes with eight A100, H100 or H200 GPUs. AMD and rack-scale sizes do not need it.
    vendor(&size) == Some(Vendor::Nvidia)
        && ["standard_nd96", "standard_nd112", "standard_nd120"].iter().any(|family| size.starts_with(family))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn promo_suffix_and_case_are_ignored() {
        assert_eq!(vendor("Standard_NC6s_V2_promo"), Some(Vendor::Nvidia));
        assert_eq!(vendor("standard_nd96isr_mi300x_v5"), Some(Vendor::Amd));
        assert_eq!(vendor("standard_d2_v2"), None);
        assert_eq!(vendor(""), None);
    }

    #[test]
    fn first_nc_sizes_do_not_support_azure_linux() {
        assert!(works_on("standard_nc6", Os::Ubuntu) && !works_on("standard_nc6", Os::AzureLinux));
        assert!(works_on("standard_nc6s_v3", Os::AzureLinux));
        assert!(
            !works_on("standard_nc24ads_a100_v4", Os::AzureLinux)
                && works_on("standard_nc24ads_a100_v4", Os::AzureLinux3)
        );
        assert_eq!(Os::from_name("windows_server_2025"), None);
    }

    #[test]
    fn driver_kind_follows_the_size() {
        for (size, kind) in [
            ("standard_nc6", DriverKind::Cuda),
            ("standard_nc24r_promo", DriverKind::Cuda),
            ("standard_nc6s_v3", DriverKind::CudaLts),
            ("standard_nv36adms_a10_v5", DriverKind::Grid),
            ("standard_nc8ads_a10_v4", DriverKind::Grid),
            ("Standard_NC144ds_xl_RTXPRO6000BSE_v6", DriverKind::GridV20),
        ] {
            assert_eq!(driver_kind(size), kind, "{size}");
        }
        let count = |kind| table::SIZES.iter().filter(|(size, _, _)| driver_kind(size) == kind).count();
        assert_eq!((count(DriverKind::Grid), count(DriverKind::GridV20)), (9, 9));
    }

    #[test]
    fn sizes_with_nvswitch_need_fabric_manager() {
        assert!(needs_fabric_manager("standard_nd96isr_h200_v5") && needs_fabric_manager("Standard_ND96asr_v4"));
        assert!(
            !needs_fabric_manager("standard_nc24ads_a100_v4") && !needs_fabric_manager("standard_nd96isr_mi300x_v5")
        );
    }

    #[test]
    fn table_is_sorted_and_unique() {
        let mut sizes: Vec<_> = table::SIZES.iter().map(|(size, _, _)| *size).collect();
        sizes.dedup();
        assert_eq!(sizes.len(), table::SIZES.len());
        assert!(sizes.is_sorted());
    }
}
