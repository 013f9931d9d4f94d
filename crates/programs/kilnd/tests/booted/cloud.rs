//! The metadata service of a machine's own cloud.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use testkit::nspawn::{Machine, Request, Response, Server};

use super::document::Document;

/// The metadata service of one machine. Dropped, it is down.
pub(crate) struct Cloud {
    server: Server,
    user_data: Arc<Mutex<Option<String>>>,
}

impl Cloud {
    /// Starts it in the machine's network.
    #[track_caller]
    pub(crate) fn of(machine: &Machine) -> Self {
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
                // Nobody in particular: a machine keeps the name that it has.
                Some(_) if request.target.contains("/metadata/instance?") => {
                    Response::json(r#"{"compute":{}}"#.to_owned())
                }
                _ => Response::status(404),
            }
        };
        Self { server: Server::start(machine.network().listen(address), answer), user_data }
    }

    /// Gives the machine user data.
    pub(crate) fn set(&self, document: &Document) {
        *self.user_data.lock().unwrap_or_else(PoisonError::into_inner) = Some(document.encoded());
    }

    /// How often it was asked for anything.
    pub(crate) fn requests(&self) -> usize {
        self.server.seen().len()
    }

    /// How often user data was asked for.
    pub(crate) fn asked(&self) -> usize {
        self.server.seen().iter().filter(|request| request.target.contains("/userData")).count()
    }
}
