//! A small web server, with which a test plays the cloud of a machine.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// An HTTP request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    pub method: String,
    /// The path and the query.
    pub target: String,
    /// Names are in lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

/// An HTTP response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    pub status: u16,
    pub content_type: &'static str,
    pub body: Vec<u8>,
}

impl Request {
    /// The value of a header field.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

impl Response {
    /// Status 200 with plain text.
    pub fn text(body: impl Into<Vec<u8>>) -> Self {
        Self { status: 200, content_type: "text/plain", body: body.into() }
    }

    /// Status 200 with JSON.
    pub fn json(body: impl Into<Vec<u8>>) -> Self {
        Self { status: 200, content_type: "application/json", body: body.into() }
    }

    /// A status without a body.
    pub fn status(status: u16) -> Self {
        Self { status, content_type: "text/plain", body: Vec::new() }
    }
}

type Answer = Box<dyn FnMut(&Request) -> Response + Send>;

/// A running server, which stops when it is dropped.
pub struct Server {
    address: SocketAddr,
    shared: Arc<Shared>,
    /// A clone of the listener, because its namespace may end before this value.
    listener: TcpListener,
}

struct Shared {
    answer: Mutex<Answer>,
    seen: Mutex<Vec<Request>>,
    ended: Mutex<bool>,
}

impl Server {
    /// Serves on a listener, one request per connection.
    ///
    /// # Panics
    /// When the listener has no address.
    #[track_caller]
    pub fn start(listener: TcpListener, answer: impl FnMut(&Request) -> Response + Send + 'static) -> Self {
        let address = listener.local_addr().expect("a listener has an address");
        let shared =
            Arc::new(Shared { answer: Mutex::new(Box::new(answer)), seen: Mutex::default(), ended: Mutex::new(false) });
        let own = listener.try_clone().expect("a listener can be cloned");
        let of_thread = Arc::clone(&shared);
        thread::spawn(move || {
            for stream in listener.incoming() {
                if *lock(&of_thread.ended) {
                    break;
                }
                let Ok(stream) = stream else { continue };
                let shared = Arc::clone(&of_thread);
                // A client may disconnect in the middle of a request.
                thread::spawn(move || drop(serve(&stream, &shared)));
            }
        });
        Self { address, shared, listener: own }
    }

    /// The address of the server.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Replaces the function that answers requests.
    pub fn set(&self, answer: impl FnMut(&Request) -> Response + Send + 'static) {
        *lock(&self.shared.answer) = Box::new(answer);
    }

    /// All requests so far.
    pub fn seen(&self) -> Vec<Request> {
        lock(&self.shared.seen).clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        *lock(&self.shared.ended) = true;
        // Wakes the thread that accepts connections, in whichever namespace it listens.
        let _ = rustix::net::shutdown(&self.listener, rustix::net::Shutdown::Both);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn serve(stream: &TcpStream, shared: &Shared) -> std::io::Result<()> {
    // A client that sends nothing must not block the thread for ever.
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let mut words = line.split_whitespace();
    let (Some(method), Some(target)) = (words.next(), words.next()) else { return Ok(()) };
    let (method, target) = (method.to_owned(), target.to_owned());
    let mut headers = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let mut request = Request { method, target, headers, body: Vec::new() };
    let length = request.header("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    request.body.resize(length, 0);
    reader.read_exact(&mut request.body)?;
    lock(&shared.seen).push(request.clone());
    let Response { status, content_type, body } = (lock(&shared.answer))(&request);
    let mut stream = stream;
    write!(
        stream,
        "HTTP/1.1 {status} Answer\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    )?;
    stream.write_all(&body)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn ask(address: SocketAddr, text: &str) -> std::io::Result<String> {
        let mut stream = TcpStream::connect(address)?;
        stream.write_all(text.as_bytes())?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }

    #[test]
    fn server_records_requests_and_its_answers_can_be_replaced() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let server = Server::start(listener, |request| Response::text(request.header("metadata").unwrap_or("none")));
        let address = server.address();
        assert!(ask(address, "GET /a?b HTTP/1.1\r\nMetadata: true\r\n\r\n").unwrap().ends_with("\r\n\r\ntrue"));
        server.set(|request| Response { body: request.body.clone(), ..Response::status(410) });
        let answer = ask(address, "PUT /b HTTP/1.1\r\nContent-Length: 2\r\n\r\nhi").unwrap();
        assert!(answer.starts_with("HTTP/1.1 410 ") && answer.ends_with("hi"), "{answer}");
        let seen: Vec<_> = server.seen().into_iter().map(|request| request.target).collect();
        assert_eq!(seen, ["/a?b", "/b"]);
        drop(server);
        assert!(!ask(address, "GET / HTTP/1.1\r\n\r\n").is_ok_and(|answer| !answer.is_empty()));
    }
}
