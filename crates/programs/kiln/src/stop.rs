//! How the program is told to end.

use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::failure::Failure;

/// The signals that end the program in order. They count from the start, also before it is ready.
pub(crate) struct Stop([Signal; 3]);

impl Stop {
    pub(crate) fn new() -> Result<Self, Failure> {
        let on = |kind| signal(kind).map_err(|error| Failure::failed(format_args!("signals: {error}")));
        Ok(Self([on(SignalKind::terminate())?, on(SignalKind::interrupt())?, on(SignalKind::hangup())?]))
    }

    pub(crate) async fn received(mut self) {
        self.next().await;
    }

    /// The next one.
    pub(crate) async fn next(&mut self) {
        let Self([terminate, interrupt, hangup]) = self;
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            _ = hangup.recv() => {}
        }
    }
}
