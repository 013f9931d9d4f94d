//! How an API server behaves. Each test runs against the embedded server and against the real one; what both pass, clients can
//! rely on.

mod budgets;
mod deletion;
mod door;
mod ground;
mod kubectl;
mod kubelets;
mod nodes;
mod objects;
mod patches;
mod pods;
mod reading;
mod watches;

/// Makes a test for each server of functions that take a [`ground::Ground`].
macro_rules! both {
    ($($name:ident),+ $(,)?) => {
        mod embedded {
            $(#[tokio::test]
            async fn $name() {
                super::$name(crate::ground::Ground::embedded().await).await;
            })+
        }
        mod real {
            $(#[tokio::test]
            async fn $name() {
                super::$name(crate::ground::Ground::real().await).await;
            })+
        }
    };
}
pub(crate) use both;
