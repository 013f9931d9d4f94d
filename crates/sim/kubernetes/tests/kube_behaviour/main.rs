//! The behaviour of an API server. Each test runs against the embedded server and against a real one.

mod access;
mod apply;
mod budgets;
mod custom;
mod custom_clients;
mod custom_objects;
mod deletion;
mod kubectl;
mod kubelets;
mod nodes;
mod objects;
mod patches;
mod pods;
mod reading;
mod test_server;
mod watches;

/// Defines a test per server for functions that take a [`test_server::TestServer`].
macro_rules! both {
    ($($name:ident),+ $(,)?) => {
        mod embedded {
            $(#[tokio::test]
            async fn $name() {
                super::$name(crate::test_server::TestServer::embedded().await).await;
            })+
        }
        mod real {
            $(#[tokio::test]
            async fn $name() {
                super::$name(crate::test_server::TestServer::real().await).await;
            })+
        }
    };
}
pub(crate) use both;
