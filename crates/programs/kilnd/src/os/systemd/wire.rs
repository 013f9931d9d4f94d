//! D-Bus messages on systemd's private socket. `zbus` is only used as a codec: on this socket messages have a sender that is not a unique name,
//! which zbus connections reject.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;
use zbus::wire::serialized::{Context, Data};
use zbus::wire::{Endian, to_bytes};
use zbus::{DynamicType, ObjectPath, OwnedVariant, Type, Variant};

/// The message size limit. The list of all units of a large machine has some hundred kilobytes.
const LARGEST: usize = 64 << 20;

const METHOD: u8 = 1;
pub(super) const ANSWER: u8 = 2;
pub(super) const FAILURE: u8 = 3;
pub(super) const SIGNAL: u8 = 4;

type Head = (u8, u8, u8, u8, u32, u32, Vec<(u8, OwnedVariant)>);

/// A message from systemd.
#[derive(Debug, Default)]
pub(super) struct Message {
    kind: u8,
    reply_to: u32,
    /// The name of a signal.
    pub(super) member: String,
    error: String,
    pub(super) body: Vec<u8>,
}

/// The response to a call.
#[derive(Debug)]
pub(super) enum Answer {
    Body(Message),
    Refused {
        /// The D-Bus error name.
        name: String,
        message: String,
    },
}

impl Message {
    /// Decodes the body.
    pub(super) fn get<T: DeserializeOwned + Type>(self) -> io::Result<T> {
        Data::new(self.body, context()).deserialize::<T>().map(|found| found.0).map_err(bad)
    }
}

/// An open connection.
#[derive(Debug)]
pub(super) struct Link {
    stream: UnixStream,
    serial: u32,
    signals: VecDeque<Message>,
}

impl Link {
    /// Connects and authenticates with the uid that the kernel reports. There is no `Hello` on a private socket.
    pub(super) fn open(socket: &Path, timeout: Duration) -> io::Result<Self> {
        let mut stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(timeout))?;
        stream.set_write_timeout(Some(timeout))?;
        stream.write_all(b"\0AUTH EXTERNAL\r\nDATA\r\nBEGIN\r\n")?;
        let (mut lines, mut byte, mut ends) = (Vec::new(), [0_u8], 0);
        while ends < 2 && lines.len() < 256 {
            stream.read_exact(&mut byte)?;
            lines.push(byte[0]);
            ends += u32::from(byte[0] == b'\n');
        }
        if !lines.starts_with(b"DATA\r\nOK ") {
            return Err(bad(format!("authentication failed: {}", String::from_utf8_lossy(&lines))));
        }
        Ok(Self { stream, serial: 0, signals: VecDeque::new() })
    }

    /// Sets the read timeout.
    pub(super) fn set_timeout(&self, timeout: Duration) -> io::Result<()> {
        // Zero would disable the timeout.
        self.stream.set_read_timeout(Some(timeout.max(Duration::from_millis(1))))
    }

    /// Calls a method and waits for the response. Signals that arrive meanwhile are queued.
    pub(super) fn call<B: Serialize + DynamicType>(
        &mut self,
        path: &str,
        interface: &str,
        member: &str,
        body: &B,
    ) -> io::Result<Answer> {
        self.serial += 1;
        let message = encode(METHOD, self.serial, path, interface, member, body)?;
        self.stream.write_all(&message)?;
        loop {
            let message = self.receive()?;
            match message.kind {
                ANSWER if message.reply_to == self.serial => return Ok(Answer::Body(message)),
                FAILURE if message.reply_to == self.serial => {
                    let name = message.error.clone();
                    return Ok(Answer::Refused { name, message: message.get::<String>().unwrap_or_default() });
                }
                SIGNAL => self.signals.push_back(message),
                _ => {}
            }
        }
    }

    /// The next signal.
    pub(super) fn signal(&mut self) -> io::Result<Message> {
        loop {
            let message = match self.signals.pop_front() {
                Some(queued) => return Ok(queued),
                None => self.receive()?,
            };
            if message.kind == SIGNAL {
                return Ok(message);
            }
        }
    }

    fn receive(&mut self) -> io::Result<Message> {
        let mut bytes = vec![0_u8; 16];
        self.stream.read_exact(&mut bytes)?;
        if bytes[0] != b'l' {
            return Err(bad("unexpected byte order"));
        }
        let number =
            |at: usize| bytes[at..at + 4].iter().rev().fold(0_usize, |sum, byte| sum << 8 | usize::from(*byte));
        let (body, start) = (number(4), 16 + number(12).next_multiple_of(8));
        if start.saturating_add(body) > LARGEST {
            return Err(bad("message too large"));
        }
        bytes.resize(start + body, 0);
        self.stream.read_exact(&mut bytes[16..])?;
        decode(bytes, start)
    }
}

pub(super) fn decode(mut bytes: Vec<u8>, start: usize) -> io::Result<Message> {
    let body = bytes.split_off(start);
    let (head, _): (Head, _) = Data::new(bytes, context()).deserialize().map_err(bad)?;
    let mut message = Message { kind: head.1, body, ..Message::default() };
    for (field, value) in head.6 {
        match (field, &*value) {
            (3, Variant::Str(text)) => message.member = text.to_string(),
            (4, Variant::Str(text)) => message.error = text.to_string(),
            (5, Variant::U32(serial)) => message.reply_to = *serial,
            _ => {}
        }
    }
    Ok(message)
}

fn encode<B: Serialize + DynamicType>(
    kind: u8,
    serial: u32,
    path: &str,
    interface: &str,
    member: &str,
    body: &B,
) -> io::Result<Vec<u8>> {
    let (signature, data) = (body.signature(), to_bytes(context(), body).map_err(bad)?);
    let path = ObjectPath::try_from(path).map_err(bad)?;
    let fields: Vec<(u8, Variant<'_>)> = vec![(1, path.into()), (2, interface.into()), (3, member.into())];
    let length = u32::try_from(data.bytes().len()).map_err(bad)?;
    let head = (b'l', kind, 0_u8, 1_u8, length, serial, fields);
    let mut message = to_bytes(context(), &head).map_err(bad)?.bytes().to_vec();
    if !data.bytes().is_empty() {
        // Encoded by hand: the codec would write "(ss)" where the header needs "ss".
        let signature = signature.to_string_no_parens();
        pad(&mut message);
        message.extend([8, 1, b'g', 0, u8::try_from(signature.len()).map_err(bad)?]);
        message.extend(signature.as_bytes());
        message.push(0);
        let fields = u32::try_from(message.len() - 16).map_err(bad)?;
        message[12..16].copy_from_slice(&fields.to_le_bytes());
    }
    pad(&mut message);
    message.extend_from_slice(data.bytes());
    Ok(message)
}

pub(super) fn pad(message: &mut Vec<u8>) {
    message.resize(message.len().next_multiple_of(8), 0);
}

pub(super) fn context() -> Context {
    Context::new(Endian::Little, 0)
}

fn bad(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}
