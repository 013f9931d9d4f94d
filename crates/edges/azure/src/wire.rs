//! Transports and pipeline policies.

mod fresh_token;
mod guard;
mod http;
mod in_process;
mod metadata;
mod record_file;
mod recorder;
mod sanitise;

pub use fresh_token::FreshTokenPolicy;
pub use guard::{Refusal, RequestGuard};
pub use http::{CaError, HttpOptions, http_client};
pub use in_process::InProcess;
pub use metadata::{METADATA_ADDRESS, MetadataRoute};
pub use record_file::{RecordError, RecordFile};
pub use recorder::{Exchange, Recorder, RecordingClient};
pub use sanitise::Sanitiser;
