//! Tasks on a node, carried out by a pod that announces itself with an event on the node.
//!
//! [`Inspector`] is the port; [`PodInspector`] implements it with pods. A pod is bound to its node and tolerates every taint. Its name is
//! derived from the node's, so that the next run finds and removes what a killed run left behind.

mod driver;
mod frozen;
mod inspector;
mod pod;

pub(crate) use driver::explain;
pub use inspector::{Inspector, PodInspector};
pub use pod::{
    RESULT_ANNOTATION, RESULT_KEY, RUN_ANNOTATION, SECRET_RESULT_ANNOTATION, SECRET_RESULT_KEY, SIMULATED_ANNOTATION,
    TASK_LABEL, THAW_RESULT_KEY, Task, task_pod,
};
