//! What ARM's requests and answers mean.

mod answer;
mod api;
mod call;
mod classify;
mod client;
mod envelope;
mod error;
mod id;
mod operation;
mod paging;
mod retry;
mod settle;

pub(crate) use api::Api;
pub(crate) use call::Call;
pub use client::{Arm, ArmOptions};
pub use envelope::ErrorDetail;
pub use error::{Error, RequestLine};
pub use id::{BadResourceId, ResourceId, Scope};
pub use operation::BadHandle;
pub(crate) use operation::{Handle, Kind};
pub use retry::Jitter;
