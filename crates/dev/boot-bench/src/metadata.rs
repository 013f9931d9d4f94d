//! The metadata service of the machines.

use std::net::{Ipv4Addr, TcpListener};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kiln_machines::network::set_up_loopback;
use testkit::nspawn::{Request, Response, Server};

use crate::Error;
use crate::variant::DOCUMENT;

const ADDRESS: Ipv4Addr = Ipv4Addr::new(169, 254, 169, 254);

/// Adds the address of the metadata service to this network, which must be private, and serves it.
pub(crate) fn serve() -> Result<Server, Error> {
    set_up_loopback(&[ADDRESS])?;
    let listener = TcpListener::bind((ADDRESS, 80)).map_err(Error::spawn("the metadata service"))?;
    Ok(Server::start(listener, answer))
}

fn answer(request: &Request) -> Response {
    if request.header("metadata") != Some("true") {
        return Response::status(400);
    }
    match request.target.split('?').next() {
        Some("/metadata/instance/compute/userData") => Response::text(STANDARD.encode(DOCUMENT)),
        Some("/metadata/instance") => {
            let document = STANDARD.encode(DOCUMENT);
            let os = serde_json::json!({ "adminUsername": "azureuser", "computerName": "bench-node-0" });
            let compute = serde_json::json!({ "name": "bench-node-0", "osProfile": os, "userData": document });
            Response::json(serde_json::json!({ "compute": compute }).to_string())
        }
        _ => Response::status(404),
    }
}
