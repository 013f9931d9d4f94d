//! A host in a private network that answers by a script, and a time that passes only when somebody waits.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use kilnd::sources::{Endpoints, Wait};

/// A time that passes only when somebody waits.
#[derive(Clone, Debug, Default)]
pub(crate) struct Virtual {
    millis: Arc<AtomicU64>,
    pub(crate) networks: Arc<AtomicU64>,
}

impl Virtual {
    fn pass(&self, time: Duration) {
        self.millis.fetch_add(u64::try_from(time.as_millis()).expect("short"), Ordering::SeqCst);
    }
}

impl Wait for Virtual {
    fn now(&self) -> Duration {
        Duration::from_millis(self.millis.load(Ordering::SeqCst))
    }

    fn sleep(&self, time: Duration) {
        assert!(!time.is_zero(), "nobody waits for nothing");
        self.pass(time);
    }

    fn network(&self, at_most: Duration) {
        self.networks.fetch_add(1, Ordering::SeqCst);
        self.pass(at_most);
    }
}

/// One request, as it came.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked {
    pub(crate) line: String,
    pub(crate) head: String,
    pub(crate) body: String,
}

/// An answer: status, further headers, body.
pub(crate) type Answer = (u16, String, Vec<u8>);

/// A host whose services answer by a function.
pub(crate) struct Host {
    pub(crate) url: String,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Host {
    /// Whoever asks it is a client of the metadata service, and such a client must not be where the real one could answer.
    pub(crate) fn new(answer: impl Fn(&Asked, usize) -> Answer + Send + 'static) -> Self {
        testkit::assert_private();
        Self::on(TcpListener::bind("127.0.0.1:0").expect("loopback"), answer)
    }

    pub(crate) fn on(listener: TcpListener, answer: impl Fn(&Asked, usize) -> Answer + Send + 'static) -> Self {
        let url = format!("http://{}", listener.local_addr().expect("bound"));
        let asked = Arc::<Mutex<Vec<Asked>>>::default();
        let kept = Arc::clone(&asked);
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let _ = serve(stream, &answer, &kept);
            }
        });
        Self { url, asked }
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().expect("no panic").clone()
    }

    pub(crate) fn endpoints(&self) -> Endpoints {
        let none = std::path::PathBuf::from("/nonexistent");
        Endpoints {
            imds: self.url.clone(),
            wire_server: self.url.clone(),
            dmi: none.clone(),
            cd: Vec::new(),
            credentials: none,
        }
    }
}

fn serve(
    mut stream: TcpStream,
    answer: &impl Fn(&Asked, usize) -> Answer,
    kept: &Mutex<Vec<Asked>>,
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
    let asked = Asked { line: head.lines().next().unwrap_or_default().to_owned(), head: lower, body };
    let (status, headers, body) = {
        let mut all = kept.lock().expect("no panic");
        all.push(asked.clone());
        answer(&asked, all.len())
    };
    if status == 0 {
        // The connection breaks.
        return Ok(());
    }
    write!(stream, "HTTP/1.1 {status} X\r\nConnection: close\r\nContent-Length: {}\r\n{headers}\r\n", body.len())?;
    stream.write_all(&body)
}
