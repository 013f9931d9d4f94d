//! Transports and pipeline policies.

mod fresh_token;
mod guard;
mod http;
mod in_process;
mod metadata;
mod recorder;

pub use fresh_token::FreshTokenPolicy;
pub use guard::{Refusal, RequestGuard};
pub use http::{CaError, HttpOptions, http_client};
pub use in_process::InProcess;
pub use metadata::{METADATA_ADDRESS, MetadataRoute};
pub use recorder::{Exchange, Recorder, RecordingClient};
