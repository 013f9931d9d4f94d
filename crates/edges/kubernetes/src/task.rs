//! What must be done inside a node, by a pod that says on the node what it does.
//!
//! [`Inspector`] is the port; [`PodInspector`] is the way by pods. A pod is bound to its node, tolerates everything, and is found again by
//! its name, which is made of the node's: whoever comes next removes what a killed run left.

mod driver;
mod inspector;
mod pod;

pub use inspector::{Inspector, PodInspector};
pub use pod::{
    RESULT_ANNOTATION, RESULT_KEY, RUN_ANNOTATION, SECRET_RESULT_ANNOTATION, SECRET_RESULT_KEY, SIMULATED_ANNOTATION,
    TASK_LABEL, Task, task_pod,
};
