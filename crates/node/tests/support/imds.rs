//! A metadata service on loopback that follows a script, a line per answer:
//!
//! ```text
//! 404                 an answer without a body; with `2*404` two of them
//! 429 retry-after=3   a header
//! 200 @user-data.b64  the bytes of a file of the case, without spaces at the end
//! close               the connection ends without an answer
//! ```
//!
//! The last line answers everything after it too. A path that is not asked for user data is answered with 404 and takes no line.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

/// The part of a path that asks for user data.
const USER_DATA: &str = "userData";

/// A metadata service. It ends with its process.
pub(crate) struct Imds {
    /// Where it listens.
    pub(crate) url: String,
    asked: Arc<AtomicUsize>,
    headers: Arc<Mutex<Vec<String>>>,
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
        let answers: Vec<Answer> = script
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty() && !line.starts_with('#'))
            .flat_map(|line| answers(line, folder))
            .collect();
        assert!(!answers.is_empty(), "a script has at least one answer");
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let (asked, headers) = (Arc::new(AtomicUsize::new(0)), Arc::new(Mutex::new(Vec::new())));
        let (count, seen) = (Arc::clone(&asked), Arc::clone(&headers));
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                // A client that went away is its own affair.
                let _ = serve(&stream, &answers, &count, &seen);
            }
        });
        Self { url, asked, headers }
    }

    /// How often user data was asked for.
    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    /// The heads of all requests.
    pub(crate) fn heads(&self) -> Vec<String> {
        self.headers.lock().expect("no panic while it was held").clone()
    }
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

fn serve(
    stream: &TcpStream,
    answers: &[Answer],
    asked: &AtomicUsize,
    seen: &Mutex<Vec<String>>,
) -> std::io::Result<()> {
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
        let wants_user_data = head.lines().next().unwrap_or_default().contains(USER_DATA);
        seen.lock().expect("no panic while it was held").push(head);
        let answer = if wants_user_data {
            let number = asked.fetch_add(1, Ordering::SeqCst);
            answers[number.min(answers.len() - 1)].clone()
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
