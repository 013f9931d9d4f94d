//! Signals that stop the program.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::Failure;

/// SIGTERM, SIGINT and SIGHUP. A signal that arrives before the program waits for it is not lost.
pub(crate) struct Stop([Signal; 3]);

impl Stop {
    pub(crate) fn new() -> Result<Self, Failure> {
        let on = |kind| {
            signal(kind).map_err(|error| Failure::failed(format_args!("cannot install signal handlers: {error}")))
        };
        Ok(Self([on(SignalKind::terminate())?, on(SignalKind::interrupt())?, on(SignalKind::hangup())?]))
    }

    pub(crate) async fn received(mut self) {
        self.next().await;
    }

    /// Waits for the next signal.
    pub(crate) async fn next(&mut self) {
        let Self([terminate, interrupt, hangup]) = self;
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            _ = hangup.recv() => {}
        }
    }
}
