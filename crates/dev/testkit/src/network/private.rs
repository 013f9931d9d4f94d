//! The private network of this process's tests.

use std::fs::File;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::OnceLock;

use kiln_machines::network::NetworkNamespace;

use super::{CLOUD, Network};

/// The private network that the tests of this process share. Needs root. It ends with the process, because only a file that is open here
/// refers to it.
///
/// # Panics
/// When it cannot be created.
#[track_caller]
pub fn private() -> &'static Network {
    static CREATED: OnceLock<(Network, File)> = OnceLock::new();
    &CREATED.get_or_init(create).0
}

/// Fails in any network where the address of the metadata service is not the test's own, so that a real one could answer.
///
/// # Panics
/// In such a network.
#[track_caller]
pub fn assert_private() {
    let is_private = TcpListener::bind((Ipv4Addr::from(CLOUD[0]), 0)).is_ok();
    assert!(is_private, "a client of the metadata service must run in `testkit::private().inside`");
}

#[track_caller]
fn create() -> (Network, File) {
    let (namespace, file) = NetworkNamespace::create().unwrap_or_else(|error| panic!("{error}"));
    let network = Network::new(namespace);
    network.set_up_loopback(&CLOUD.map(Ipv4Addr::from));
    (network, file)
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{SocketAddr, TcpStream};
    use std::path::PathBuf;
    use std::thread;
    use std::time::Duration;

    use super::*;

    /// The id of the network of this thread.
    fn own() -> PathBuf {
        std::fs::read_link("/proc/thread-self/ns/net").expect("a namespace")
    }

    #[test]
    fn threads_and_programs_run_in_one_private_network() {
        let inside = private().inside(own);
        assert_ne!(inside, own());
        assert_eq!(private().inside(|| thread::spawn(own).join().expect("a thread")), inside);
        let output = private().command("readlink").arg("/proc/self/ns/net").output().expect("nsenter");
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), inside.to_string_lossy());
    }

    #[test]
    fn test_has_the_addresses_of_a_cloud_and_no_other_address_is_reachable() {
        let address: SocketAddr = (Ipv4Addr::new(169, 254, 169, 254), 80).into();
        let listener = private().listen(address);
        let server = thread::spawn(move || listener.accept().expect("a client").0.write_all(b"the test"));
        let mut answer = String::new();
        private().connect(address).expect("it listens").read_to_string(&mut answer).expect("read");
        server.join().expect("no panic").expect("written");
        assert_eq!(answer, "the test");
        // An address reserved for documentation. It has no route here.
        let other = (Ipv4Addr::new(192, 0, 2, 1), 80).into();
        let error =
            private().within(|| TcpStream::connect_timeout(&other, Duration::from_secs(5))).expect_err("no route");
        assert_eq!(error.kind(), std::io::ErrorKind::NetworkUnreachable, "{error}");
    }

    #[test]
    fn metadata_client_fails_where_the_real_service_could_answer() {
        private().inside(assert_private);
        let outside = std::panic::catch_unwind(assert_private).expect_err("not here");
        assert!(outside.downcast_ref::<&str>().is_some_and(|message| message.contains("testkit::private()")));
    }

    #[test]
    fn forwarded_address_reaches_the_host_and_others_do_not() {
        let host = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback");
        let address = host.local_addr().expect("bound");
        assert!(private().connect(address).is_err(), "not before it is forwarded");
        private().forward(address);
        let server = thread::spawn(move || {
            let mut stream = host.accept().expect("a client").0;
            let mut request = String::new();
            stream.read_to_string(&mut request).expect("read");
            stream.write_all(format!("{request}, answer").as_bytes())
        });
        let mut client = private().connect(address).expect("forwarded");
        client.write_all(b"request").expect("written");
        client.shutdown(std::net::Shutdown::Write).expect("shut down");
        let mut answer = String::new();
        client.read_to_string(&mut answer).expect("read");
        server.join().expect("no panic").expect("written");
        assert_eq!(answer, "request, answer");
    }
}
