//! The network of this process's tests.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::AsRawFd as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use super::Network;

/// Says when the network is as it should be, and stays until somebody has taken hold of it.
const MAKE: &str = "ip link set lo up
ip address add 169.254.169.254/32 dev lo
ip address add 168.63.129.16/32 dev lo
echo made
read -r word || true";

/// The network that the tests of this process share. It takes root, and it ends with the process, whatever ends that: nothing holds it
/// but a file that is open here.
///
/// # Panics
/// When it cannot be made.
#[track_caller]
pub fn private() -> &'static Network {
    static MADE: OnceLock<(Network, File)> = OnceLock::new();
    &MADE.get_or_init(make).0
}

/// Fails where a real metadata service could answer: in any network in which its address is not the test's own.
///
/// # Panics
/// There.
#[track_caller]
pub fn assert_private() {
    let is_ours = TcpListener::bind((Ipv4Addr::new(169, 254, 169, 254), 0)).is_ok();
    assert!(is_ours, "a client of the metadata service runs in `testkit::private().inside`");
}

#[track_caller]
fn make() -> (Network, File) {
    let mut unshare = Command::new("unshare");
    unshare.args(["--net", "sh", "-euc", MAKE]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut maker = unshare.spawn().unwrap_or_else(|error| panic!("unshare: {error}"));
    let mut line = String::new();
    let read = maker.stdout.take().map(|output| BufReader::new(output).read_line(&mut line));
    assert!(matches!(read, Some(Ok(_))) && line == "made\n", "a network of our own cannot be made: are we root?");
    let kept = File::open(Network::of(maker.id()).namespace).unwrap_or_else(|error| panic!("its network: {error}"));
    drop(maker.stdin.take());
    maker.wait().unwrap_or_else(|error| panic!("unshare: {error}"));
    let namespace = PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), kept.as_raw_fd()));
    (Network { namespace }, kept)
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{SocketAddr, TcpStream};
    use std::thread;
    use std::time::Duration;

    use super::*;

    /// What a network looks like from within: every process in the same one reads the same.
    fn own() -> PathBuf {
        std::fs::read_link("/proc/thread-self/ns/net").expect("a namespace")
    }

    #[test]
    fn what_runs_there_is_not_in_our_network_and_all_of_it_is_in_one() {
        let inside = private().inside(own);
        assert_ne!(inside, own());
        assert_eq!(private().inside(|| thread::spawn(own).join().expect("a thread")), inside);
        let output = private().command("readlink").arg("/proc/self/ns/net").output().expect("nsenter");
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), inside.to_string_lossy());
    }

    #[test]
    fn the_addresses_of_a_cloud_are_the_tests_own_and_nothing_else_can_be_reached() {
        let address: SocketAddr = (Ipv4Addr::new(169, 254, 169, 254), 80).into();
        let listener = private().listen(address);
        let server = thread::spawn(move || listener.accept().expect("a client").0.write_all(b"the test"));
        let mut said = String::new();
        private().connect(address).expect("it listens").read_to_string(&mut said).expect("read");
        server.join().expect("no panic").expect("written");
        assert_eq!(said, "the test");
        // An address of documentation: nobody has it, and here nobody even looks for it.
        let nobody = (Ipv4Addr::new(192, 0, 2, 1), 80).into();
        let error =
            private().within(|| TcpStream::connect_timeout(&nobody, Duration::from_secs(5))).expect_err("no route");
        assert_eq!(error.kind(), std::io::ErrorKind::NetworkUnreachable, "{error}");
    }

    #[test]
    fn where_the_real_service_could_answer_its_client_fails() {
        private().inside(assert_private);
        let outside = std::panic::catch_unwind(assert_private).expect_err("not here");
        assert!(outside.downcast_ref::<&str>().is_some_and(|said| said.contains("testkit::private()")));
    }

    #[test]
    fn an_address_that_is_let_in_is_the_hosts_and_others_are_not() {
        let host = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback");
        let address = host.local_addr().expect("bound");
        assert!(private().connect(address).is_err(), "not before it is let in");
        private().forward(address);
        let server = thread::spawn(move || {
            let mut stream = host.accept().expect("a client").0;
            let mut asked = String::new();
            stream.read_to_string(&mut asked).expect("read");
            stream.write_all(format!("{asked}, heard").as_bytes())
        });
        let mut client = private().connect(address).expect("let in");
        client.write_all(b"a word").expect("written");
        client.shutdown(std::net::Shutdown::Write).expect("said");
        let mut said = String::new();
        client.read_to_string(&mut said).expect("read");
        server.join().expect("no panic").expect("written");
        assert_eq!(said, "a word, heard");
    }
}
