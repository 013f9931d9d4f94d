//! Requests before the network is up, in a private network namespace.

#[expect(dead_code, reason = "this test has its own clock")]
mod scripted_host;

use std::cell::Cell;
use std::net::TcpListener;
use std::process::Command;
use std::time::Duration;

use kilnd::sources::{Imds, Rules, Wait};

/// Set in the process inside the namespace.
const INSIDE: &str = "KILN_TEST_WITHOUT_NETWORK";

/// A network that comes up at the third wait.
#[derive(Default)]
struct Late {
    waits: Cell<u32>,
    slept: Cell<Duration>,
}

impl Wait for Late {
    fn now(&self) -> Duration {
        self.slept.get()
    }

    fn sleep(&self, time: Duration) {
        self.slept.set(self.slept.get() + time);
    }

    fn network(&self, at_most: Duration) {
        assert!(!at_most.is_zero());
        self.waits.set(self.waits.get() + 1);
        if self.waits.get() == 3 {
            let up = Command::new("ip").args(["link", "set", "lo", "up"]).status().expect("ip");
            assert!(up.success());
        }
    }
}

#[test]
fn without_a_route_kilnd_waits_for_the_network_and_retries_at_once() {
    if std::env::var_os(INSIDE).is_none() {
        let mut inside = Command::new("unshare");
        inside.args(["--net", "--"]).arg(std::env::current_exe().expect("a path")).env(INSIDE, "1");
        let output = inside.output().expect("unshare");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
        return;
    }
    // Loopback is down in the namespace, so even 127.0.0.1 is unreachable.
    let listener = TcpListener::bind("0.0.0.0:0").expect("any address");
    let port = listener.local_addr().expect("bound").port();
    let host = scripted_host::Host::on(listener, |_, _| (200, String::new(), b"e30=".to_vec()));
    let wait = Late::default();
    let body = Imds::new(&format!("http://127.0.0.1:{port}"), 1).user_data(Rules::IMDS, &wait).expect("it came up");
    assert_eq!(body.as_deref(), Some(b"e30=".as_slice()));
    assert_eq!((wait.waits.get(), wait.slept.get(), host.requests().len()), (3, Duration::ZERO, 1));
}
