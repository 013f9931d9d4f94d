//! Being told to stop, by a person or by a signal.

use tokio::sync::watch;

/// Tells an operation to stop.
#[derive(Debug)]
pub struct Stopper(watch::Sender<bool>);

/// Whether an operation is told to stop. It then stops between two acts, never within one.
#[derive(Debug, Clone)]
pub struct Stop(Option<watch::Receiver<bool>>);

impl Stop {
    /// Nobody ever tells.
    pub fn never() -> Self {
        Self(None)
    }

    /// Both ends.
    pub fn pair() -> (Stopper, Self) {
        let (sender, receiver) = watch::channel(false);
        (Stopper(sender), Self(Some(receiver)))
    }

    /// Whether it was told.
    pub fn is_told(&self) -> bool {
        self.0.as_ref().is_some_and(|told| *told.borrow())
    }

    /// Ends when it is told. A teller that is gone will not tell any more.
    pub async fn told(&self) {
        let Some(mut told) = self.0.clone() else { return std::future::pending().await };
        if told.wait_for(|told| *told).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Stopper {
    /// Tells it.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}
