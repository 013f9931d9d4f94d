//! The drivers that the image's own list of components names.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::gpu::{self, DriverKind};

/// The newest driver of each line, by the name of its image.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GpuDrivers(BTreeMap<String, (String, String)>);

/// A list of components that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ComponentsError {
    /// It is not the JSON that was expected.
    #[error("components.json: {0}")]
    Json(#[from] serde_json::Error),
    /// A version is not a driver and a suffix with one dash between.
    #[error("components.json: `{image}` has version `{version}`, which is not a driver and a suffix")]
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
    /// Reads the image's `components.json`.
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

    fn of_size(&self, size: &str) -> Option<&(String, String)> {
        // The first compute sizes share the long-term image, whatever driver they get.
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
        self.of_size(size).map_or_else(String::new, |(version, _)| version.clone())
    }

    /// `GPU_IMAGE_SHA`.
    pub fn image_sha(&self, size: &str) -> String {
        self.of_size(size).map_or_else(String::new, |(_, sha)| sha.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JSON: &str = r#"{"GPUContainerImages": [
        {"downloadURL": "mcr.example/aks/aks-gpu-cuda-lts:*", "gpuVersion": {"latestVersion": "580.1-2024"}},
        {"downloadURL": "mcr.example/aks/aks-gpu-grid:*", "gpuVersion": {"latestVersion": "550.9-2025"}}]}"#;

    #[test]
    fn each_size_gets_the_driver_of_its_line() {
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
    fn a_version_without_a_suffix_is_refused_by_the_name_of_its_image() {
        let error = GpuDrivers::from_components(JSON.replace("550.9-2025", "550.9").as_bytes()).unwrap_err();
        assert!(matches!(error, ComponentsError::Version { image, .. } if image == "aks-gpu-grid"));
        assert!(GpuDrivers::from_components(b"[").is_err());
    }
}
