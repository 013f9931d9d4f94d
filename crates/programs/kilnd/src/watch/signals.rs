//! Signals that wake the loop.

use std::io;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Why the loop wakes early.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wake {
    /// SIGHUP: poll for a document.
    Poll,
    /// SIGTERM or SIGINT.
    Stop,
}

/// Starts listening. The task that is running when a signal arrives is finished first.
pub(crate) fn listen() -> io::Result<Receiver<Wake>> {
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM])?;
    let (sender, receiver) = channel();
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        for signal in signals.forever() {
            let wake = if signal == SIGHUP { Wake::Poll } else { Wake::Stop };
            if sender.send(wake).is_err() {
                return;
            }
        }
    })?;
    Ok(receiver)
}
