//! A fake `org.freedesktop.systemd1` on a private socket, with enough of D-Bus for Debian's `systemd-analyze`.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::thread;

use kiln_boot_analysis::{Boot, Unit, Usec};

/// The boot that the fake manager reports.
pub(crate) struct Fake {
    boot: Boot,
    /// Object path to unit name.
    paths: HashMap<String, String>,
}

impl Fake {
    /// Serves a boot in a folder that is used as `XDG_RUNTIME_DIR`, until the process ends.
    pub(crate) fn serve(boot: Boot, folder: &Path) -> io::Result<()> {
        let folder = folder.join("systemd");
        std::fs::create_dir_all(&folder)?;
        let listener = UnixListener::bind(folder.join("private"))?;
        let names = boot.units.keys().chain(boot.aliases.keys());
        let paths = names.map(|name| (object_path(name.as_str()), boot.id(name.as_str()).to_owned())).collect();
        let fake = Arc::new(Self { boot, paths });
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let fake = Arc::clone(&fake);
                // The thread ends when the client disconnects.
                thread::spawn(move || fake.handle(stream));
            }
        });
        Ok(())
    }

    fn handle(&self, mut stream: UnixStream) -> io::Result<()> {
        authenticate(&mut stream)?;
        let mut serial = 0;
        loop {
            let call = Call::read(&mut stream)?;
            serial += 1;
            let message = match self.answer(&call) {
                Some((signature, body)) => reply(serial, call.serial, signature, &body),
                None => unknown_object(serial, call.serial),
            };
            stream.write_all(&message)?;
        }
    }

    /// `None` if there is no such unit.
    fn answer(&self, call: &Call) -> Option<(&'static str, Vec<u8>)> {
        let mut out = Out::default();
        let answer = match (call.member.as_str(), call.arguments.as_slice()) {
            ("GetAll", _) => {
                out.array(8, |out| match self.paths.get(&call.path) {
                    Some(name) => self.unit_properties(out, name),
                    None => self.manager_properties(out),
                });
                ("a{sv}", out.0)
            }
            ("Get", [_, property]) => {
                let unit = self.paths.get(&call.path)?.clone();
                match property.as_str() {
                    "Id" => out.variant_text(&unit),
                    "After" => out.variant_list(&self.after(&unit)),
                    other => match self.boot.units.get(unit.as_str()).and_then(|unit| time_of(unit, other)) {
                        Some(time) => out.variant_time(time),
                        None => out.variant_list(&[]),
                    },
                }
                ("v", out.0)
            }
            ("ListUnits", _) => {
                out.array(8, |out| self.list(out));
                ("a(ssssssouso)", out.0)
            }
            _ => ("", Vec::new()),
        };
        Some(answer)
    }

    fn list(&self, out: &mut Out) {
        let mut all: Vec<_> = self.boot.units.iter().collect();
        all.sort_by_key(|(_, unit)| unit.index);
        for (name, _) in all {
            out.align(8);
            for text in [name.as_str(), "a unit", "loaded", "active", "running", ""] {
                out.text(text);
            }
            out.text(&object_path(name.as_str()));
            out.number(0);
            out.text("");
            out.text("/");
        }
    }

    fn after(&self, unit: &str) -> Vec<String> {
        let unit = self.boot.units.get(unit);
        unit.map(|unit| unit.after.iter().map(ToString::to_string).collect()).unwrap_or_default()
    }

    fn unit_properties(&self, out: &mut Out, name: &str) {
        let Some(unit) = self.boot.units.get(name) else { return };
        out.property("Id", |out| out.variant_text(name));
        for (key, time) in times(unit) {
            out.property(key, |out| out.variant_time(time.unwrap_or_default()));
        }
        out.property("After", |out| out.variant_list(&self.after(name)));
    }

    fn manager_properties(&self, out: &mut Out) {
        let manager = &self.boot.manager;
        let all = [
            ("FirmwareTimestampMonotonic", manager.firmware),
            ("LoaderTimestampMonotonic", manager.loader),
            ("InitRDTimestampMonotonic", manager.initrd),
            ("UserspaceTimestampMonotonic", manager.userspace),
            ("FinishTimestampMonotonic", manager.finish),
        ];
        for (key, time) in all {
            out.property(key, |out| out.variant_time(time.unwrap_or_default()));
        }
    }
}

fn time_of(unit: &Unit, property: &str) -> Option<Usec> {
    times(unit).into_iter().find(|(key, _)| *key == property).and_then(|(_, time)| time)
}

fn times(unit: &Unit) -> [(&'static str, Option<Usec>); 4] {
    [
        ("InactiveExitTimestampMonotonic", unit.activating),
        ("ActiveEnterTimestampMonotonic", unit.activated),
        ("ActiveExitTimestampMonotonic", unit.deactivating),
        ("InactiveEnterTimestampMonotonic", unit.deactivated),
    ]
}

/// systemd's escaping: every byte but letters and digits becomes `_` and two hex digits.
fn object_path(name: &str) -> String {
    let escaped: String = name
        .bytes()
        .enumerate()
        .map(|(index, byte)| match byte {
            b'0'..=b'9' if index > 0 => char::from(byte).to_string(),
            b'a'..=b'z' | b'A'..=b'Z' => char::from(byte).to_string(),
            other => format!("_{other:02x}"),
        })
        .collect();
    format!("/org/freedesktop/systemd1/unit/{escaped}")
}

/// Accepts every client: only the test can reach the socket.
fn authenticate(stream: &mut UnixStream) -> io::Result<()> {
    let mut line = Vec::new();
    let mut byte = [0];
    stream.read_exact(&mut byte)?;
    loop {
        stream.read_exact(&mut byte)?;
        line.push(byte[0]);
        if !line.ends_with(b"\r\n") {
            continue;
        }
        let text = String::from_utf8_lossy(&line).trim().to_owned();
        line.clear();
        match text.split(' ').next().unwrap_or_default() {
            "AUTH" if text.split(' ').count() > 2 => stream.write_all(b"OK 0123456789abcdef0123456789abcdef\r\n")?,
            "AUTH" => stream.write_all(b"DATA\r\n")?,
            "DATA" => stream.write_all(b"OK 0123456789abcdef0123456789abcdef\r\n")?,
            "NEGOTIATE_UNIX_FD" => stream.write_all(b"AGREE_UNIX_FD\r\n")?,
            "BEGIN" => return Ok(()),
            _ => stream.write_all(b"ERROR\r\n")?,
        }
    }
}

/// The relevant parts of a method call.
struct Call {
    serial: u32,
    path: String,
    member: String,
    arguments: Vec<String>,
}

impl Call {
    fn read(stream: &mut UnixStream) -> io::Result<Self> {
        let mut head = [0; 16];
        stream.read_exact(&mut head)?;
        let number = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let (body_length, serial, fields_length) = (number(4) as usize, number(8), number(12) as usize);
        let mut fields = vec![0; fields_length.next_multiple_of(8)];
        stream.read_exact(&mut fields)?;
        let mut body = vec![0; body_length];
        stream.read_exact(&mut body)?;
        let mut call = Self { serial, path: String::new(), member: String::new(), arguments: Vec::new() };
        let mut signature = String::new();
        let mut at = 0;
        while at < fields_length {
            at = at.next_multiple_of(8);
            let (code, kind) = (fields[at], fields[at + 2]);
            at += 4;
            if kind == b'g' {
                let length = usize::from(fields[at]);
                signature = String::from_utf8_lossy(&fields[at + 1..=at + length]).into_owned();
                at += length + 2;
            } else if kind == b'u' {
                at += 4;
            } else {
                let (text, next) = text_at(&fields, at);
                match code {
                    1 => call.path = text,
                    3 => call.member = text,
                    _ => {}
                }
                at = next;
            }
        }
        let mut at = 0;
        for _ in signature.chars().filter(|kind| *kind == 's') {
            let (text, next) = text_at(&body, at);
            call.arguments.push(text);
            at = next;
        }
        Ok(call)
    }
}

fn text_at(bytes: &[u8], at: usize) -> (String, usize) {
    let at = at.next_multiple_of(4);
    let length = u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]) as usize;
    let text = String::from_utf8_lossy(&bytes[at + 4..at + 4 + length]).into_owned();
    (text, at + 4 + length + 1)
}

fn reply(serial: u32, to: u32, signature: &str, body: &[u8]) -> Vec<u8> {
    let mut fields = Out::default();
    if !signature.is_empty() {
        fields.0.extend([8, 1, b'g', 0]);
        fields.signature(signature);
    }
    message(2, [serial, to], fields, body)
}

fn unknown_object(serial: u32, to: u32) -> Vec<u8> {
    let mut fields = Out::default();
    fields.0.extend([4, 1, b's', 0]);
    fields.text("org.freedesktop.DBus.Error.UnknownObject");
    message(3, [serial, to], fields, &[])
}

fn message(kind: u8, [serial, to]: [u32; 2], mut fields: Out, body: &[u8]) -> Vec<u8> {
    fields.align(8);
    fields.0.extend([5, 1, b'u', 0]);
    fields.number(to);
    fields.align(8);
    fields.0.extend([7, 1, b's', 0]);
    fields.text("org.freedesktop.systemd1");
    let mut message = Out(vec![b'l', kind, 0, 1]);
    message.number(u32::try_from(body.len()).unwrap_or(u32::MAX));
    message.number(serial);
    message.number(u32::try_from(fields.0.len()).unwrap_or(u32::MAX));
    message.0.extend(fields.0);
    message.align(8);
    message.0.extend(body);
    message.0
}

/// A writer of the D-Bus wire format.
#[derive(Default)]
struct Out(Vec<u8>);

impl Out {
    fn align(&mut self, to: usize) {
        self.0.resize(self.0.len().next_multiple_of(to), 0);
    }

    fn number(&mut self, value: u32) {
        self.align(4);
        self.0.extend(value.to_le_bytes());
    }

    fn text(&mut self, text: &str) {
        self.number(u32::try_from(text.len()).unwrap_or(u32::MAX));
        self.0.extend(text.as_bytes());
        self.0.push(0);
    }

    fn signature(&mut self, text: &str) {
        self.0.push(u8::try_from(text.len()).unwrap_or(u8::MAX));
        self.0.extend(text.as_bytes());
        self.0.push(0);
    }

    fn array(&mut self, element: usize, fill: impl FnOnce(&mut Self)) {
        self.number(0);
        let length_at = self.0.len() - 4;
        self.align(element);
        let start = self.0.len();
        fill(self);
        let length = u32::try_from(self.0.len() - start).unwrap_or(u32::MAX);
        self.0[length_at..length_at + 4].copy_from_slice(&length.to_le_bytes());
    }

    fn property(&mut self, key: &str, value: impl FnOnce(&mut Self)) {
        self.align(8);
        self.text(key);
        value(self);
    }

    fn variant_text(&mut self, text: &str) {
        self.signature("s");
        self.text(text);
    }

    fn variant_time(&mut self, time: Usec) {
        self.signature("t");
        self.align(8);
        self.0.extend(time.0.to_le_bytes());
    }

    fn variant_list(&mut self, list: &[String]) {
        self.signature("as");
        self.array(4, |out| list.iter().for_each(|text| out.text(text)));
    }
}
