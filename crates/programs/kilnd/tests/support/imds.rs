//! A metadata service in the private network that follows a script, a line per answer:
//!
//! ```text
//! 404                 an answer without a body; with `2*404` two of them
//! 429 retry-after=3   a header
//! 200 @user-data.b64  the bytes of a file of the case, without spaces at the end
//! close               the connection ends without an answer
//! down 120            the same for 120 s after the first question, as a kilnd counts them that the script runs
//! ```
//!
//! The last line answers everything after it too. Lines that begin with `instance` are for who asks what the machine is; without any it
//! is nobody in particular. Any other path is answered with 404 and takes no line.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

/// How many times faster than real the time of a case's kilnd is, as `tests/node/lib.sh` says.
const HURRY: u32 = 1000;

/// The part of a path that asks for user data.
const USER_DATA: &str = "userData";
/// The one that asks what the machine is.
const INSTANCE: &str = "/metadata/instance?";

/// A metadata service. It ends with its process.
pub(crate) struct Imds {
    /// Where it listens.
    pub(crate) url: String,
    user_data: Arc<Script>,
    instance: Arc<Script>,
    headers: Arc<Mutex<Vec<String>>>,
}

/// The answers to one question, and how often it was asked.
struct Script {
    /// How long nobody answers, from the first question on.
    down: Duration,
    answers: Vec<Answer>,
    asked: AtomicUsize,
    /// The first question; and how many were asked before there was an answer.
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
    /// Starts it with a script whose files lie in `folder`.
    pub(crate) fn start(script: &str, folder: &Path) -> Self {
        let lines = script.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
        let (instance, user_data): (Vec<&str>, Vec<&str>) = lines.partition(|line| line.starts_with("instance "));
        let (down, user_data): (Vec<&str>, Vec<&str>) = user_data.iter().partition(|line| line.starts_with("down "));
        let seconds: u64 = down.iter().map(|line| line[5..].trim().parse::<u64>().expect("a number")).sum();
        let down = Duration::from_secs(seconds) / HURRY;
        let read = |lines: Vec<&str>| -> Vec<Answer> {
            lines.iter().flat_map(|line| answers(line.trim_start_matches("instance "), folder)).collect()
        };
        let (mut instance, user_data) = (read(instance), read(user_data));
        assert!(!user_data.is_empty(), "a script has at least one answer");
        if instance.is_empty() {
            instance =
                vec![Answer { status: 200, headers: Vec::new(), body: br#"{"compute":{}}"#.to_vec(), closes: false }];
        }
        let script =
            |answers, down| Arc::new(Script { down, answers, asked: AtomicUsize::new(0), since: Mutex::default() });
        let listener = testkit::private().listen((Ipv4Addr::LOCALHOST, 0).into());
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let headers = Arc::new(Mutex::new(Vec::new()));
        let (user_data, instance) = (script(user_data, down), script(instance, Duration::ZERO));
        let imds = Self { url, user_data, instance, headers };
        let (user_data, instance, seen) =
            (Arc::clone(&imds.user_data), Arc::clone(&imds.instance), Arc::clone(&imds.headers));
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                // A client that went away is its own affair.
                let _ = serve(&stream, &user_data, &instance, &seen);
            }
        });
        imds
    }

    /// How often user data was asked for.
    pub(crate) fn asked(&self) -> usize {
        self.user_data.asked.load(Ordering::SeqCst)
    }

    /// How often user data was asked for while nobody answered; none where somebody always did.
    pub(crate) fn asked_while_down(&self) -> Option<usize> {
        let unanswered = self.user_data.since.lock().expect("no panic while it was held").1;
        (!self.user_data.down.is_zero()).then_some(unanswered)
    }

    /// How often it was asked what the machine is.
    pub(crate) fn asked_for_the_instance(&self) -> usize {
        self.instance.asked.load(Ordering::SeqCst)
    }

    /// The heads of all requests.
    pub(crate) fn heads(&self) -> Vec<String> {
        self.headers.lock().expect("no panic while it was held").clone()
    }
}

impl Script {
    fn next(&self) -> Answer {
        let number = self.asked.fetch_add(1, Ordering::SeqCst);
        let mut since = self.since.lock().expect("no panic while it was held");
        if since.0.get_or_insert_with(now).elapsed() < self.down {
            since.1 += 1;
            return Answer { status: 0, headers: Vec::new(), body: Vec::new(), closes: true };
        }
        self.answers[(number - since.1).min(self.answers.len() - 1)].clone()
    }
}

#[expect(clippy::disallowed_methods, reason = "the service is another machine, with its own clock")]
fn now() -> Instant {
    Instant::now()
}

fn answers(line: &str, folder: &Path) -> Vec<Answer> {
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
