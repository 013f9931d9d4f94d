//! The metadata service of a booted test machine.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use testkit::nspawn::{Machine, Request, Response, Server};

use super::document::Document;

/// The metadata service of one machine. Dropping it stops the service.
pub(crate) struct Cloud {
    server: Server,
    user_data: Arc<Mutex<Option<String>>>,
}

impl Cloud {
    /// Starts the service in the machine's network namespace.
    #[track_caller]
    pub(crate) fn start(machine: &Machine) -> Self {
        let address: SocketAddr = (Ipv4Addr::new(169, 254, 169, 254), 80).into();
        let user_data = Arc::new(Mutex::new(None::<String>));
        let shared = Arc::clone(&user_data);
        let answer = move |request: &Request| {
            if request.header("metadata") != Some("true") {
                return Response::status(400);
            }
            let data = shared.lock().unwrap_or_else(PoisonError::into_inner).clone();
            match data {
                Some(data) if request.target.contains("/userData") => Response::text(data),
                // Without an osProfile the machine keeps its host name.
                Some(_) if request.target.contains("/metadata/instance?") => {
                    Response::json(r#"{"compute":{}}"#.to_owned())
                }
                _ => Response::status(404),
            }
        };
        Self { server: Server::start(machine.network().listen(address), answer), user_data }
    }

    /// Sets the user data that the service returns from now on.
    pub(crate) fn set_user_data(&self, document: &Document) {
        *self.user_data.lock().unwrap_or_else(PoisonError::into_inner) = Some(document.encoded());
    }

    /// Accepts connections and never answers, from now on.
    pub(crate) fn hang(&self) {
        self.server.set(|_| {
            loop {
                std::thread::park();
            }
        });
    }

    /// The number of requests for any path.
    pub(crate) fn requests(&self) -> usize {
        self.server.seen().len()
    }

    /// The number of requests for user data.
    pub(crate) fn user_data_requests(&self) -> usize {
        self.server.seen().iter().filter(|request| request.target.contains("/userData")).count()
    }
}
