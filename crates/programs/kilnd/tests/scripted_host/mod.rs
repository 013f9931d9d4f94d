//! A scripted HTTP server in a private network, and a clock that advances only when the client waits.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use kilnd::sources::{Endpoints, Wait};

/// A clock that advances only when the client waits.
#[derive(Clone, Debug, Default)]
pub(crate) struct VirtualClock {
    millis: Arc<AtomicU64>,
    pub(crate) networks: Arc<AtomicU64>,
}

impl VirtualClock {
    fn pass(&self, time: Duration) {
        self.millis.fetch_add(u64::try_from(time.as_millis()).expect("short"), Ordering::SeqCst);
    }
}

impl Wait for VirtualClock {
    fn now(&self) -> Duration {
        Duration::from_millis(self.millis.load(Ordering::SeqCst))
    }

    fn sleep(&self, time: Duration) {
        assert!(!time.is_zero(), "a wait of zero");
        self.pass(time);
    }

    fn network(&self, at_most: Duration) {
        self.networks.fetch_add(1, Ordering::SeqCst);
        self.pass(at_most);
    }
}

/// A received request; `head` is in lower case.
#[derive(Clone, Debug, Default)]
pub(crate) struct Request {
    pub(crate) line: String,
    pub(crate) head: String,
    pub(crate) body: String,
}

/// A response: status, additional headers, body. Status 0 closes the connection.
pub(crate) type Answer = (u16, String, Vec<u8>);

/// An HTTP server whose responses come from a function of the request and its number.
pub(crate) struct Host {
    pub(crate) url: String,
    requests: Arc<Mutex<Vec<Request>>>,
}

impl Host {
    /// Starts a server on loopback. Its clients are clients of the metadata service, so they must run in a private network.
    pub(crate) fn new(answer: impl Fn(&Request, usize) -> Answer + Send + 'static) -> Self {
        testkit::assert_private();
        Self::on(TcpListener::bind("127.0.0.1:0").expect("loopback"), answer)
    }

    pub(crate) fn on(listener: TcpListener, answer: impl Fn(&Request, usize) -> Answer + Send + 'static) -> Self {
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        let requests = Arc::<Mutex<Vec<Request>>>::default();
        let recorded = Arc::clone(&requests);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let _ = serve(stream, &answer, &recorded);
            }
        });
        Self { url, requests }
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.lock().expect("no panic").clone()
    }

    pub(crate) fn endpoints(&self) -> Endpoints {
        let none = std::path::PathBuf::from("/nonexistent");
        Endpoints {
            imds: self.url.clone(),
            wire_server: self.url.clone(),
            dmi: none.clone(),
            cd: Vec::new(),
            credentials: none.clone(),
            var_lib: none,
        }
    }
}

fn serve(
    mut stream: TcpStream,
    answer: &impl Fn(&Request, usize) -> Answer,
    recorded: &Mutex<Vec<Request>>,
) -> std::io::Result<()> {
    let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
    let head = loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break String::from_utf8_lossy(&bytes[..end + 4]).into_owned();
        }
        let read = stream.read(&mut buffer)?;
        if read == 0 {
            return Ok(());
        }
        bytes.extend_from_slice(&buffer[..read]);
    };
    let lower = head.to_ascii_lowercase();
    let length = lower.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok()).unwrap_or(0);
    while bytes.len() < head.len() + length {
        let read = stream.read(&mut buffer)?;
        bytes.extend_from_slice(&buffer[..read]);
    }
    let body = String::from_utf8_lossy(&bytes[head.len()..]).into_owned();
    let request = Request { line: head.lines().next().unwrap_or_default().to_owned(), head: lower, body };
    let (status, headers, body) = {
        let mut all = recorded.lock().expect("no panic");
        all.push(request.clone());
        answer(&request, all.len())
    };
    if status == 0 {
        // Close the connection without a response.
        return Ok(());
    }
    write!(stream, "HTTP/1.1 {status} X\r\nConnection: close\r\nContent-Length: {}\r\n{headers}\r\n", body.len())?;
    stream.write_all(&body)
}
