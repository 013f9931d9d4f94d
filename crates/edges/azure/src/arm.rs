//! The ARM client: requests, error classification, retries, paging and long-running operations. [`Arm`] sends a `Call` through the pipeline
//! and returns an `Answer`; `operation` and `settle` follow what an answer started.

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
pub(crate) use operation::{Handle, OperationKind};
pub use retry::Jitter;
