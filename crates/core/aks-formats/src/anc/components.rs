//! GPU drivers listed in the `components.json` of an image.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::gpu::{self, DriverKind};

/// Newest driver of each series, by the name of its container image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GpuDrivers(BTreeMap<String, (String, String)>);

/// An invalid `components.json`.
#[derive(Debug, thiserror::Error)]
pub enum ComponentsError {
    #[error("components.json: {0}")]
    Json(#[from] serde_json::Error),
    #[error("components.json: `{image}` has invalid version `{version}`; expected `DRIVER-SUFFIX`")]
    Version { image: String, version: String },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Image {
    #[serde(rename = "downloadURL")]
    download_url: String,
    gpu_version: Latest,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Latest {
    latest_version: String,
}

#[derive(Deserialize)]
struct Components {
    #[serde(rename = "GPUContainerImages", default)]
    gpu: Vec<Image>,
}

impl GpuDrivers {
    /// Parses `components.json`.
    pub fn from_components(json: &[u8]) -> Result<Self, ComponentsError> {
        let components: Components = serde_json::from_slice(json)?;
        let mut drivers = BTreeMap::new();
        for Image { download_url, gpu_version: Latest { latest_version } } in components.gpu {
            let path = download_url.rsplit('/').next().unwrap_or(&download_url);
            let image = path.split(':').next().unwrap_or(path).to_owned();
            match latest_version.split('-').collect::<Vec<_>>()[..] {
                [driver, suffix] if !driver.is_empty() && !suffix.is_empty() => {
                    drivers.insert(image, (driver.to_owned(), suffix.to_owned()));
                }
                _ => return Err(ComponentsError::Version { image, version: latest_version }),
            }
        }
        Ok(Self(drivers))
    }

    fn for_size(&self, size: &str) -> Option<&(String, String)> {
        // The first NC sizes use the image of the LTS series, with a different driver version.
        let kind = match gpu::driver_kind(size) {
            DriverKind::Cuda => DriverKind::CudaLts,
            kind => kind,
        };
        self.0.get(&format!("aks-gpu-{kind}"))
    }

    /// `GPU_DRIVER_VERSION`.
    pub fn version(&self, size: &str) -> String {
        if gpu::driver_kind(size) == DriverKind::Cuda {
            return format!("cuda-{}", gpu::FIRST_CUDA_VERSION);
        }
        self.for_size(size).map_or_else(String::new, |(version, _)| version.clone())
    }

    /// `GPU_IMAGE_SHA`.
    pub fn image_sha(&self, size: &str) -> String {
        self.for_size(size).map_or_else(String::new, |(_, sha)| sha.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JSON: &str = r#"{"GPUContainerImages": [
        {"downloadURL": "mcr.example/aks/aks-gpu-cuda-lts:*", "gpuVersion": {"latestVersion": "580.1-2024"}},
        {"downloadURL": "mcr.example/aks/aks-gpu-grid:*", "gpuVersion": {"latestVersion": "550.9-2025"}}]}"#;

    #[test]
    fn driver_follows_the_series_of_the_size() {
        let drivers = GpuDrivers::from_components(JSON.as_bytes()).unwrap();
        assert_eq!(
            (drivers.version("standard_nc6s_v3"), drivers.image_sha("standard_nc6s_v3")),
            ("580.1".into(), "2024".into())
        );
        assert_eq!(drivers.version("standard_nv6ads_a10_v5"), "550.9");
        assert_eq!(drivers.version("Standard_NC12"), "cuda-470.82.01");
        assert_eq!(drivers.version("standard_nc144ds_xl_rtxpro6000bse_v6"), "");
        assert_eq!(GpuDrivers::default().version("standard_nc6s_v3"), "");
    }

    #[test]
    fn version_without_suffix_is_rejected_with_the_image_name() {
        let error = GpuDrivers::from_components(JSON.replace("550.9-2025", "550.9").as_bytes()).unwrap_err();
        assert!(matches!(error, ComponentsError::Version { image, .. } if image == "aks-gpu-grid"));
        assert!(GpuDrivers::from_components(b"[").is_err());
    }
}
