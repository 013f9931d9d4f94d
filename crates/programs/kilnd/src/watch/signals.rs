//! Signals, and everything else that wakes the loop, on one channel.

use std::io;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// What wakes the loop before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wake {
    /// Somebody asks for a look.
    Look,
    /// The service manager asks to end.
    Stop,
}

/// Listens to signals from now on. What is being done when one comes is finished first.
pub(super) fn listen() -> io::Result<Receiver<Wake>> {
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM])?;
    let (sender, receiver) = channel();
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        for signal in signals.forever() {
            let wake = if signal == SIGHUP { Wake::Look } else { Wake::Stop };
            if sender.send(wake).is_err() {
                return;
            }
        }
    })?;
    Ok(receiver)
}
