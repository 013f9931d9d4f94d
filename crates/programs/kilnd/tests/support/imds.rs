//! A metadata service in the private network that follows a script with one response per line:
//!
//! ```text
//! 404                 a response without a body; `2*404` sends it twice
//! 429 retry-after=3   with a header
//! 200 @user-data.b64  with a file of the case as body, without trailing whitespace
//! close               close the connection without a response
//! down 120            the same for 120 s (of kilnd's scaled time) after the first request
//! ```
//!
//! The last line is repeated for all further requests for user data. Lines that start with `instance` are responses to requests for the
//! instance; without any, the instance has an empty `compute`. Requests for other paths get 404 and use up no line.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// The `--time-scale` of kilnd in the cases, see `tests/node/lib.sh`.
const TIME_SCALE: u32 = 1000;

/// Part of the path of a request for user data.
const USER_DATA: &str = "userData";
/// Part of the path of a request for the instance.
const INSTANCE: &str = "/metadata/instance?";

/// A scripted metadata service. It ends with its process.
pub(crate) struct Imds {
    pub(crate) url: String,
    user_data: Arc<Script>,
    instance: Arc<Script>,
    headers: Arc<Mutex<Vec<String>>>,
}

/// The responses for one path, and its number of requests.
struct Script {
    /// The outage after the first request.
    down: Duration,
    answers: Vec<Answer>,
    requests: AtomicUsize,
    /// The time of the first request, and the number of unanswered requests.
    since: Mutex<(Option<Instant>, usize)>,
}

#[derive(Clone, Debug)]
struct Answer {
    status: u16,
    headers: Vec<String>,
    body: Vec<u8>,
    closes: bool,
}

impl Imds {
    /// Starts the service with a script; the script's files are in `folder`.
    pub(crate) fn start(script: &str, folder: &Path) -> Self {
        let lines = script.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let (instance, user_data): (Vec<&str>, Vec<&str>) = lines.partition(|line| line.starts_with("instance "));
        let (down, user_data): (Vec<&str>, Vec<&str>) = user_data.iter().partition(|line| line.starts_with("down "));
        let seconds: u64 = down.iter().map(|line| line[5..].trim().parse::<u64>().expect("a number")).sum();
        let down = Duration::from_secs(seconds) / TIME_SCALE;
        let read = |lines: Vec<&str>| -> Vec<Answer> {
            lines.iter().flat_map(|line| parse_answers(line.trim_start_matches("instance "), folder)).collect()
        };
        let (mut instance, user_data) = (read(instance), read(user_data));
        assert!(!user_data.is_empty(), "a script needs at least one response");
        if instance.is_empty() {
            instance =
                vec![Answer { status: 200, headers: Vec::new(), body: br#"{"compute":{}}"#.to_vec(), closes: false }];
        }
        let script =
            |answers, down| Arc::new(Script { down, answers, requests: AtomicUsize::new(0), since: Mutex::default() });
        let listener = testkit::private().listen((Ipv4Addr::LOCALHOST, 0).into());
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let headers = Arc::new(Mutex::new(Vec::new()));
        let (user_data, instance) = (script(user_data, down), script(instance, Duration::ZERO));
        let imds = Self { url, user_data, instance, headers };
        let (user_data, instance, seen) =
            (Arc::clone(&imds.user_data), Arc::clone(&imds.instance), Arc::clone(&imds.headers));
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                // A client that closes the connection early is not an error.
                let _ = serve(&stream, &user_data, &instance, &seen);
            }
        });
        imds
    }

    /// The number of requests for user data.
    pub(crate) fn user_data_requests(&self) -> usize {
        self.user_data.requests.load(Ordering::SeqCst)
    }

    /// The number of unanswered requests for user data; `None` without a `down` line.
    pub(crate) fn requests_while_down(&self) -> Option<usize> {
        let unanswered = self.user_data.since.lock().expect("no panic while it was held").1;
        (!self.user_data.down.is_zero()).then_some(unanswered)
    }

    /// The number of requests for the instance.
    pub(crate) fn instance_requests(&self) -> usize {
        self.instance.requests.load(Ordering::SeqCst)
    }

    /// The request lines and headers of all requests.
    pub(crate) fn heads(&self) -> Vec<String> {
        self.headers.lock().expect("no panic while it was held").clone()
    }
}

impl Script {
    fn next(&self) -> Answer {
        let number = self.requests.fetch_add(1, Ordering::SeqCst);
        let mut since = self.since.lock().expect("no panic while it was held");
        if since.0.get_or_insert_with(now).elapsed() < self.down {
            since.1 += 1;
            return Answer { status: 0, headers: Vec::new(), body: Vec::new(), closes: true };
        }
        self.answers[(number - since.1).min(self.answers.len() - 1)].clone()
    }
}

#[expect(clippy::disallowed_methods, reason = "the service simulates another machine with its own clock")]
fn now() -> Instant {
    Instant::now()
}

fn parse_answers(line: &str, folder: &Path) -> Vec<Answer> {
    let (times, line) =
        line.split_once('*').map_or((1, line), |(times, rest)| (times.parse().expect("a number"), rest));
    let mut words = line.split_whitespace();
    let first = words.next().expect("a word");
    let closes = first == "close";
    let mut answer = Answer {
        status: if closes { 0 } else { first.parse().expect("a status") },
        headers: Vec::new(),
        body: Vec::new(),
        closes,
    };
    for word in words {
        match (word.strip_prefix('@'), word.split_once('=')) {
            (Some(file), _) => {
                let bytes = std::fs::read(folder.join(file)).expect("a file of the case");
                answer.body = bytes.trim_ascii_end().to_vec();
            }
            (None, Some((name, value))) => answer.headers.push(format!("{name}: {value}")),
            (None, None) => panic!("`{word}` is neither a file nor a header"),
        }
    }
    vec![answer; times]
}

fn serve(stream: &TcpStream, user_data: &Script, instance: &Script, seen: &Mutex<Vec<String>>) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let mut head = String::new();
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line)? == 0 {
                return Ok(());
            }
            if line == "\r\n" {
                break;
            }
            head.push_str(&line);
        }
        let line = head.lines().next().unwrap_or_default().to_owned();
        seen.lock().expect("no panic while it was held").push(head);
        let answer = if line.contains(USER_DATA) {
            user_data.next()
        } else if line.contains(INSTANCE) {
            instance.next()
        } else {
            Answer { status: 404, headers: Vec::new(), body: Vec::new(), closes: false }
        };
        if answer.closes {
            return Ok(());
        }
        let mut text = format!("HTTP/1.1 {} x\r\ncontent-length: {}\r\n", answer.status, answer.body.len());
        for header in &answer.headers {
            text.push_str(header);
            text.push_str("\r\n");
        }
        text.push_str("\r\n");
        let mut stream = stream;
        stream.write_all(text.as_bytes())?;
        stream.write_all(&answer.body)?;
    }
}
