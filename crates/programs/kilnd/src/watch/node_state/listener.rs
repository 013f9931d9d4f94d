//! A thread that watches the NodeState and wakes the loop with news.
//!
//! It blocks in a read for minutes, so the loop never waits for it: at the end of the process it just ends. If the API server of the document
//! in force changes, another listener starts, and the old one ends with its watch.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use std::{io, thread};

use super::pause::Pauses;
use crate::apiserver::{Client, Error, NodeState, NodeStateEvent, Target};
use crate::log::error_line;
use crate::sources::{Scaled, Wait as _};
use crate::watch::signals::Wake;

/// Enough for a TLS handshake, and a quarter of the default.
const STACK: usize = 512 << 10;
/// After so many failed attempts to continue a watch, the object is read again: the API server may have lost the version.
const ATTEMPTS: u32 = 3;
/// After so many answers that the cluster has no NodeStates, the node counts as not followed any more. A starting API server can answer so.
const ABSENCES: u32 = 3;
/// The status of a watch from a version that the API server does not know any more.
const GONE: u16 = 410;
/// The pause between two watches.
const BETWEEN: Duration = Duration::from_millis(200);

/// News about the NodeState.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum News {
    /// The NodeState; none if the node has none.
    State(Option<Box<NodeState>>),
    /// The cluster has no NodeStates, or the node may not read its own.
    NoFleet(String),
    /// The API server cannot be reached, or the kubelet has no certificate yet.
    Outage(String),
    /// The API server answers again.
    Watching,
}

/// How a watch ended.
enum End {
    /// The API server closed it after its time.
    Over,
    /// It was closed before anything arrived.
    Silent,
    /// The object has to be read again.
    Expired,
}

/// The way to a listener.
#[derive(Debug)]
pub(super) struct Handle {
    pub(super) number: u64,
    /// The API server that it watches, without the certificates.
    target: Target,
    name: String,
    certificates: Arc<Mutex<Vec<PathBuf>>>,
    ended: Arc<AtomicBool>,
}

struct Listener {
    number: u64,
    client: Client,
    certificates: Arc<Mutex<Vec<PathBuf>>>,
    ended: Arc<AtomicBool>,
    loop_: Sender<Wake>,
    wait: Scaled,
    pauses: Pauses,
}

impl Handle {
    /// Starts a listener for the NodeState with this name.
    pub(super) fn start(
        number: u64,
        target: &Target,
        name: &str,
        loop_: Sender<Wake>,
        wait: Scaled,
        seed: u64,
    ) -> io::Result<Self> {
        let certificates = Arc::new(Mutex::new(target.certificates.clone()));
        let ended = Arc::new(AtomicBool::new(false));
        let handle = Self {
            number,
            target: target.clone(),
            name: name.to_owned(),
            certificates: Arc::clone(&certificates),
            ended: Arc::clone(&ended),
        };
        let client = Client::new(target.clone(), name);
        let mut listener = Listener { number, client, certificates, ended, loop_, wait, pauses: Pauses::new(seed) };
        thread::Builder::new()
            .name("node-state".to_owned())
            .stack_size(STACK)
            .spawn(move || while listener.follow().is_some() {})?;
        Ok(handle)
    }

    /// The name of the NodeState.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Whether the listener watches this API server. It uses the certificates of the target from now on.
    pub(super) fn is_for(&self, target: &Target, name: &str) -> bool {
        let same = (&self.target.server, &self.target.authority, &self.target.proxy)
            == (&target.server, &target.authority, &target.proxy)
            && self.name == name;
        if same {
            self.certificates.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&target.certificates);
        }
        same
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::SeqCst);
    }
}

impl Listener {
    /// Reads the NodeState and watches it until it has to be read again. Returns nothing if the listener has to end.
    fn follow(&mut self) -> Option<()> {
        self.renew()?;
        let (state, mut version) = match self.client.node_state() {
            Ok(found) => found,
            Err(error) => return self.absent_or_failed(&error),
        };
        self.pauses.reset();
        self.send(News::State(state.map(Box::new)))?;
        loop {
            self.renew()?;
            match self.watch(&mut version) {
                Some(Ok(End::Over)) => self.wait.sleep(BETWEEN),
                Some(Ok(End::Silent)) => self.pause(),
                Some(Ok(End::Expired)) => {
                    self.pause();
                    return Some(());
                }
                Some(Err(error)) => {
                    let can_continue = error.is_outage() && self.pauses.failures() < ATTEMPTS;
                    self.absent_or_failed(&error)?;
                    if !can_continue {
                        return Some(());
                    }
                }
                None => return None,
            }
        }
    }

    /// Watches once. Returns nothing if the listener has to end.
    fn watch(&mut self, version: &mut String) -> Option<Result<End, Error>> {
        let mut events = match self.client.watch_node_state(version) {
            Ok(events) => events,
            Err(Error::Refused { status: GONE, .. }) => return Some(Ok(End::Expired)),
            Err(error) => return Some(Err(error)),
        };
        if self.pauses.failures() > 0 {
            self.send(News::Watching)?;
        }
        let mut end = End::Silent;
        loop {
            let event = match events.wait() {
                Ok(Some(event)) => event,
                Ok(None) => return Some(Ok(end)),
                Err(error) => return Some(Err(error)),
            };
            match event {
                NodeStateEvent::Changed(state, at) => {
                    *version = at;
                    self.send(News::State(Some(state)))?;
                }
                NodeStateEvent::Deleted(at) => {
                    *version = at;
                    self.send(News::State(None))?;
                }
                NodeStateEvent::Bookmark(at) => *version = at,
                NodeStateEvent::Expired => return Some(Ok(End::Expired)),
            }
            end = End::Over;
            self.pauses.reset();
        }
    }

    fn pause(&mut self) {
        let pause = self.pauses.failed();
        self.wait.sleep(pause);
    }

    fn absent_or_failed(&mut self, error: &Error) -> Option<()> {
        let why = error_line(error);
        let pause = if error.is_forbidden() || error.is_missing() {
            let pause = if error.is_forbidden() { self.pauses.refused() } else { self.pauses.absent() };
            if error.is_missing() && self.pauses.absences() >= ABSENCES {
                self.send(News::State(None))?;
            }
            self.send(News::NoFleet(why))?;
            pause
        } else {
            let pause = self.pauses.failed();
            self.send(News::Outage(why))?;
            pause
        };
        self.wait.sleep(pause);
        Some(())
    }

    /// Uses the certificates of the document in force. Returns nothing if the listener has to end.
    fn renew(&mut self) -> Option<()> {
        let certificates = self.certificates.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.client.set_certificates(&certificates);
        (!self.ended.load(Ordering::SeqCst)).then_some(())
    }

    fn send(&self, news: News) -> Option<()> {
        let is_current = !self.ended.load(Ordering::SeqCst);
        (is_current && self.loop_.send(Wake::NodeState(self.number, news)).is_ok()).then_some(())
    }
}
