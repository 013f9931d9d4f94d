//! Stopping an operation on request, by a person or a signal.

use tokio::sync::watch;

/// Requests an operation to stop.
#[derive(Debug)]
pub struct Stopper(watch::Sender<bool>);

/// Whether an operation was requested to stop. It then stops between two actions, never within one.
#[derive(Debug, Clone)]
pub struct Stop(Option<watch::Receiver<bool>>);

impl Stop {
    /// A request that never comes.
    pub fn never() -> Self {
        Self(None)
    }

    /// A sender and a receiver of the request.
    pub fn pair() -> (Stopper, Self) {
        let (sender, receiver) = watch::channel(false);
        (Stopper(sender), Self(Some(receiver)))
    }

    /// Whether the stop was requested.
    pub fn is_requested(&self) -> bool {
        self.0.as_ref().is_some_and(|requested| *requested.borrow())
    }

    /// Waits for the request, forever if its sender is gone.
    pub async fn requested(&self) {
        let Some(mut requested) = self.0.clone() else { return std::future::pending().await };
        if requested.wait_for(|requested| *requested).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Stopper {
    /// Sends the request.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}
