//! Tests of the client against a fake systemd.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Arc, Mutex};

use super::wire::{ANSWER, FAILURE, SIGNAL, context, decode, pad};
use super::*;
use zbus::wire::serialized::Data;
use zbus::wire::to_bytes;
use zbus::{ObjectPath, Variant};

/// A received call.
pub(crate) struct Call {
    pub(crate) serial: u32,
    pub(crate) member: String,
    body: Vec<u8>,
}

impl Call {
    pub(crate) fn get<T: DeserializeOwned + Type>(&self) -> T {
        Data::new(self.body.clone(), context()).deserialize::<T>().expect("a body").0
    }
}

/// Authenticates a client.
pub(crate) fn greet(stream: &mut UnixStream) {
    let mut hello = [0_u8; 30];
    let hello = &mut hello[..b"\0AUTH EXTERNAL\r\nDATA\r\nBEGIN\r\n".len()];
    stream.read_exact(hello).expect("a greeting");
    assert_eq!(hello, b"\0AUTH EXTERNAL\r\nDATA\r\nBEGIN\r\n");
    stream.write_all(b"DATA\r\nOK 0123456789abcdef\r\n").expect("accepted");
}

pub(crate) fn receive(stream: &mut UnixStream) -> Option<Call> {
    let mut bytes = vec![0_u8; 16];
    stream.read_exact(&mut bytes).ok()?;
    let number = |at: usize| bytes[at..at + 4].iter().rev().fold(0_usize, |sum, byte| sum << 8 | usize::from(*byte));
    let (body, serial, start) = (number(4), number(8), 16 + number(12).next_multiple_of(8));
    bytes.resize(start + body, 0);
    stream.read_exact(&mut bytes[16..]).expect("a whole message");
    let message = decode(bytes, start).expect("a message");
    Some(Call { serial: u32::try_from(serial).expect("a serial"), member: message.member, body: message.body })
}

/// Responds to a call like systemd, with a sender that is not a unique name.
pub(crate) fn answer<B: Serialize + DynamicType>(stream: &mut UnixStream, to: u32, body: &B) {
    send(stream, ANSWER, &[(5, to.into())], body);
}

pub(crate) fn refuse(stream: &mut UnixStream, to: u32, name: &str, message: &str) {
    send(stream, FAILURE, &[(4, name.into()), (5, to.into())], &(message,));
}

pub(crate) fn signal<B: Serialize + DynamicType>(stream: &mut UnixStream, member: &str, body: &B) {
    send(stream, SIGNAL, &[(3, member.into())], body);
}

fn send<B: Serialize + DynamicType>(stream: &mut UnixStream, kind: u8, fields: &[(u8, Variant<'_>)], body: &B) {
    let data = to_bytes(context(), body).expect("a body");
    let mut fields: Vec<(u8, Variant<'_>)> =
        fields.iter().map(|(key, value)| (*key, value.try_clone().expect("a value"))).collect();
    fields.push((7, "org.freedesktop.systemd1".into()));
    let head = (b'l', kind, 0_u8, 1_u8, u32::try_from(data.bytes().len()).expect("a length"), 1_u32, fields);
    let mut message = to_bytes(context(), &head).expect("a head").bytes().to_vec();
    pad(&mut message);
    message.extend_from_slice(data.bytes());
    stream.write_all(&message).expect("sent");
}

/// The reaction of the fake after a call.
enum Then {
    Stay,
    HangUp,
}

type Talk = Box<dyn FnMut(&mut UnixStream, &Call, u32) -> Then + Send>;

/// A fake systemd with one unit. `talk` handles all calls except reading properties; its last argument is the number of the connection.
struct Pid1 {
    folder: tempfile::TempDir,
    calls: Arc<Mutex<Vec<String>>>,
}

#[derive(Clone)]
struct Known {
    active: &'static str,
    conditions: bool,
    job: u32,
}

impl Pid1 {
    fn new(known: Known, mut talk: Talk) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let listener = UnixListener::bind(folder.path().join("private")).expect("a socket");
        let calls = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&calls);
        // Ends with the process.
        std::thread::spawn(move || {
            for (count, stream) in (1..).zip(listener.incoming()) {
                let mut stream = stream.expect("a connection");
                greet(&mut stream);
                while let Some(call) = receive(&mut stream) {
                    log.lock().expect("a log").push(call.member.clone());
                    if !know(&known, &mut stream, &call) && matches!(talk(&mut stream, &call, count), Then::HangUp) {
                        break;
                    }
                }
            }
        });
        Self { folder, calls }
    }

    fn client(&self) -> Systemd {
        Systemd::new(self.folder.path().join("private"), Duration::from_secs(5))
    }

    fn calls(&self) -> Vec<String> {
        self.calls.lock().expect("a log").clone()
    }
}

fn unit_path() -> ObjectPath<'static> {
    ObjectPath::try_from("/org/freedesktop/systemd1/unit/kubelet_2eservice").expect("a path")
}

fn job_path(number: u32) -> ObjectPath<'static> {
    ObjectPath::try_from(format!("/org/freedesktop/systemd1/job/{number}")).expect("a path")
}

fn know(known: &Known, stream: &mut UnixStream, call: &Call) -> bool {
    match call.member.as_str() {
        "LoadUnit" => answer(stream, call.serial, &(unit_path(),)),
        "Subscribe" | "ResetFailedUnit" => answer(stream, call.serial, &()),
        "Get" => {
            let (_, property): (String, String) = call.get();
            let value: Variant<'_> = match property.as_str() {
                "LoadState" => "loaded".into(),
                "ActiveState" => known.active.into(),
                "SubState" => "running".into(),
                "Result" => "success".into(),
                "ConditionResult" => known.conditions.into(),
                "ConditionTimestampMonotonic" => 7_u64.into(),
                "NeedDaemonReload" => false.into(),
                // systemd returns `/` without a job.
                "Job" if known.job == 0 => (0_u32, ObjectPath::try_from("/").expect("a path")).into(),
                "Job" => (known.job, job_path(known.job)).into(),
                other => panic!("{other}"),
            };
            answer(stream, call.serial, &(value,));
        }
        _ => return false,
    }
    true
}

fn removed(stream: &mut UnixStream, number: u32, result: &str) {
    signal(stream, "JobRemoved", &(number, job_path(number), "kubelet.service", result));
}

const RUNS: Known = Known { active: "active", conditions: true, job: 7 };

#[test]
fn start_waits_for_its_job_and_reads_the_unit_state() {
    let talk: Talk = Box::new(|stream, call, _| {
        assert_eq!(call.member, "StartUnit");
        let (unit, mode): (String, String) = call.get();
        assert_eq!((unit.as_str(), mode.as_str()), ("kubelet.service", "replace"));
        // A quick job may end before the response to its start, and other jobs end meanwhile.
        removed(stream, 6, "failed");
        removed(stream, 7, "done");
        answer(stream, call.serial, &(job_path(7),));
        Then::Stay
    });
    let pid1 = Pid1::new(RUNS, talk);
    assert_eq!(pid1.client().start("kubelet.service").expect("started"), JobOutcome::Started);
    let calls = pid1.calls();
    let at = |name: &str| calls.iter().position(|call| call == name).expect(name);
    assert!(at("ResetFailedUnit") < at("StartUnit") && at("Subscribe") < at("StartUnit"), "{calls:?}");
}

#[test]
fn start_skipped_by_a_condition_is_reported() {
    let talk: Talk = Box::new(|stream, call, _| {
        answer(stream, call.serial, &(job_path(7),));
        removed(stream, 7, "done");
        Then::Stay
    });
    let pid1 = Pid1::new(Known { active: "inactive", conditions: false, ..RUNS }, talk);
    assert_eq!(pid1.client().restart("kubelet.service").expect("asked"), JobOutcome::Skipped);
}

#[test]
fn job_is_checked_after_a_reconnect() {
    let talk: Talk = Box::new(|stream, call, _| {
        answer(stream, call.serial, &(job_path(7),));
        Then::HangUp
    });
    // The unit has another job, so ours has ended.
    let pid1 = Pid1::new(Known { job: 8, ..RUNS }, talk);
    assert_eq!(pid1.client().restart("kubelet.service").expect("restarted"), JobOutcome::Started);
}

#[test]
fn running_job_is_awaited_after_a_reconnect() {
    let talk: Talk = Box::new(|stream, call, count| {
        assert_eq!((call.member.as_str(), count), ("StopUnit", 1), "called once, on the first connection");
        answer(stream, call.serial, &(job_path(7),));
        Then::HangUp
    });
    let pid1 = Pid1::new(RUNS, talk);
    let mut client = Systemd::new(pid1.folder.path().join("private"), Duration::from_millis(200));
    let error = client.stop("kubelet.service").expect_err("the job never ends");
    assert!(matches!(&error, Error::JobTimeout { unit, .. } if unit == "kubelet.service"), "{error}");
    assert_eq!(pid1.calls().iter().filter(|call| *call == "Subscribe").count(), 2, "once per connection");
}

#[test]
fn call_on_a_closed_connection_is_repeated() {
    let talk: Talk = Box::new(|stream, call, count| {
        assert_eq!(call.member, "ListUnits");
        if count == 1 {
            return Then::HangUp;
        }
        let job = ObjectPath::try_from("/").expect("a path");
        let row = ("kubelet.service", "", "loaded", "active", "running", "", unit_path(), 0_u32, "", job);
        answer(stream, call.serial, &(vec![row],));
        Then::Stay
    });
    let pid1 = Pid1::new(RUNS, talk);
    let mut client = pid1.client();
    assert!(client.unit("kubelet.service").expect("a unit").is_active());
    assert_eq!(client.units().expect("units"), [("kubelet.service".to_owned(), "active".to_owned())]);
}

#[test]
fn job_and_activity_are_reported() {
    let nothing: fn() -> Talk = || Box::new(|_, call, _| panic!("{}", call.member));
    assert!(Pid1::new(RUNS, nothing()).client().has_job("kubelet.service").expect("known"));
    let skipped = Known { job: 0, active: "inactive", conditions: false };
    let pid1 = Pid1::new(skipped, nothing());
    assert!(!pid1.client().has_job("kubelet.service").expect("known"));
    assert!(!pid1.client().is_up("kubelet.service").expect("known"));
    assert!(Pid1::new(RUNS, nothing()).client().is_up("kubelet.service").expect("known"));
}

#[test]
fn rejected_call_names_the_unit_and_the_message() {
    let talk: Talk = Box::new(|stream, call, _| {
        refuse(stream, call.serial, "org.freedesktop.systemd1.NoSuchUnit", "Unit x.service not found.");
        Then::Stay
    });
    let pid1 = Pid1::new(RUNS, talk);
    let error = pid1.client().start_no_wait("x.service").expect_err("not found");
    assert!(error.is_no_such_unit());
    let text = error.to_string();
    assert!(text.contains("x.service") && text.contains("StartUnit") && text.contains("not found"), "{text}");
}

#[test]
fn unreachable_systemd_names_the_socket() {
    let mut client = Systemd::new("/nowhere/private", Duration::from_secs(1));
    let error = client.unit("kubelet.service").expect_err("unreachable");
    assert!(error.to_string().contains("/nowhere/private"), "{error}");
}
