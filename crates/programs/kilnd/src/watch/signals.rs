//! Signals and news that wake the loop.

use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::node_state::News;

/// Why the loop wakes early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Wake {
    /// SIGHUP: poll for a document.
    Poll,
    /// SIGTERM or SIGINT.
    Stop,
    /// News about the NodeState, and the number of the listener that sent them.
    NodeState(u64, News),
}

/// Starts listening. The task that is running when a signal arrives is finished first. Others may wake the loop by the sender.
pub(crate) fn listen() -> io::Result<(Sender<Wake>, Receiver<Wake>)> {
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM])?;
    let (sender, receiver) = channel();
    let others = sender.clone();
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        for signal in signals.forever() {
            let wake = if signal == SIGHUP { Wake::Poll } else { Wake::Stop };
            if sender.send(wake).is_err() {
                return;
            }
        }
    })?;
    Ok((others, receiver))
}
