//! The shared API server, and its tower service, which `kube::Client` can be built on.

use std::convert::Infallible;
use std::fmt;
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Request, Response};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, Limited, StreamBody};
use jiff::Timestamp;
use kiln_sim_store::JournalError;
use tokio::sync::watch::{Receiver, Sender, channel};
use tokio::time::{Instant, sleep_until};

use crate::cluster::{Cluster, Outcome};
use crate::error::ApiError;
use crate::watch::Watch;

/// The real server's limit for request bodies.
const BODY_LIMIT: usize = 3 << 20;

/// The interval of bookmarks, about the same as the real server's.
const BOOKMARK: Duration = Duration::from_mins(1);

/// The clock of the cluster.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// The body of a response; endless for a watch.
pub type Body = UnsyncBoxBody<Bytes, Infallible>;

/// An API server. Clones share their state.
#[derive(Clone)]
pub struct Server(Arc<Inner>);

struct Inner {
    cluster: Mutex<Cluster>,
    clock: Clock,
    signal: Sender<Signal>,
}

/// The state that open watches wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Signal {
    revision: u64,
    closed: bool,
}

impl fmt::Debug for Server {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Server").field("revision", &self.lock().store.revision()).finish_non_exhaustive()
    }
}

impl Server {
    /// A new in-memory cluster. `seed` determines generated names and IDs.
    pub fn new(seed: u64, clock: Clock) -> Self {
        let cluster = Cluster::new(seed, clock());
        Self::from_cluster(cluster, clock)
    }

    /// The cluster of a state folder, created if it is missing. Everything that was acknowledged before a crash is restored.
    pub fn open(folder: &Path, seed: u64, clock: Clock) -> Result<Self, JournalError> {
        Ok(Self::from_cluster(Cluster::open(folder, seed, clock())?, clock))
    }

    fn from_cluster(cluster: Cluster, clock: Clock) -> Self {
        let (signal, _) = channel(Signal { revision: cluster.store.revision(), closed: false });
        Self(Arc::new(Inner { cluster: Mutex::new(cluster), clock, signal }))
    }

    /// Enables scheduling of unbound pods.
    #[must_use]
    pub fn with_scheduler(self) -> Self {
        self.lock().schedules = true;
        self
    }

    /// Handles a request. The response to a watch ends when the client disconnects, its timeout expires, or [`Server::close`] is called.
    pub fn handle(&self, request: &Request<Bytes>) -> Response<Body> {
        let mut cluster = self.lock();
        let outcome = cluster.handle(request, (self.0.clock)());
        self.notify(&cluster);
        drop(cluster);
        match outcome {
            Outcome::Response(response) => response.map(whole),
            Outcome::Watch(watch) => {
                let mut response = Response::new(self.stream(*watch));
                response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
                response
            }
        }
    }

    /// Applies changes that only depend on time. Requests do so too, so only an idle server needs it.
    pub fn tick(&self) {
        let mut cluster = self.lock();
        if let Err(error) = cluster.advance((self.0.clock)()) {
            eprintln!("cannot save the cluster: {error}");
        }
        self.notify(&cluster);
    }

    /// Ends all watches, including future ones.
    pub fn close(&self) {
        self.0.signal.send_modify(|signal| signal.closed = true);
    }

    /// The server as a tower service, for clients in the same process. It needs no token.
    pub fn service(&self) -> Service {
        Service(self.clone())
    }

    fn notify(&self, cluster: &Cluster) {
        let revision = cluster.store.revision();
        self.0.signal.send_if_modified(|signal| {
            let changed = signal.revision != revision;
            signal.revision = revision;
            changed
        });
    }

    fn lock(&self) -> MutexGuard<'_, Cluster> {
        // A panic of a handler is a bug that its test shows; other requests continue.
        self.0.cluster.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stream(&self, watch: Watch) -> Body {
        let now = Instant::now();
        let ends = now + Duration::from_secs(watch.lasts);
        let open_watch = OpenWatch {
            server: self.clone(),
            watch,
            signal: self.0.signal.subscribe(),
            ends,
            bookmark: now + BOOKMARK,
        };
        let frames = stream::unfold(Some(open_watch), |open_watch| async {
            let mut open_watch = open_watch?;
            let lines = open_watch.next().await?;
            let rest = (!open_watch.watch.is_over()).then_some(open_watch);
            Some((Ok::<_, Infallible>(Frame::data(Bytes::from(lines))), rest))
        });
        BodyExt::boxed_unsync(StreamBody::new(frames))
    }
}

/// A watch with a connected client.
struct OpenWatch {
    server: Server,
    watch: Watch,
    signal: Receiver<Signal>,
    ends: Instant,
    bookmark: Instant,
}

impl OpenWatch {
    /// The next lines, or `None` at the end.
    async fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            // Marked as seen before the store is read, so that later changes wake us again.
            let closed = self.signal.borrow_and_update().closed;
            let now = (self.server.0.clock)();
            let lines = self.watch.due(&self.server.lock().store, now);
            if !lines.is_empty() {
                return Some(lines);
            }
            if closed || self.watch.is_over() {
                return None;
            }
            tokio::select! {
                changed = self.signal.changed() => changed.ok()?,
                () = sleep_until(self.ends) => return None,
                () = sleep_until(self.bookmark) => {
                    self.bookmark = Instant::now() + BOOKMARK;
                    let line = self.watch.bookmark();
                    if !line.is_empty() {
                        return Some(line);
                    }
                }
            }
        }
    }
}

fn whole(bytes: Bytes) -> Body {
    Full::new(bytes).boxed_unsync()
}

/// The response for an error.
pub(crate) fn error_response(error: &ApiError) -> Response<Body> {
    error.response().map(whole)
}

/// Reads the whole body, or returns an error response.
pub(crate) async fn read<B>(request: Request<B>) -> Result<Request<Bytes>, Response<Body>>
where
    B: http_body::Body,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let (parts, body) = request.into_parts();
    match Limited::new(body, BODY_LIMIT).collect().await {
        Ok(body) => Ok(Request::from_parts(parts, body.to_bytes())),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => {
            Err(error_response(&ApiError::too_large_body(BODY_LIMIT)))
        }
        Err(error) => Err(error_response(&ApiError::bad(format!("cannot read the request: {error}")))),
    }
}

/// A [`Server`] as a tower service.
#[derive(Debug, Clone)]
pub struct Service(Server);

impl<B> tower_service::Service<Request<B>> for Service
where
    B: http_body::Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let server = self.0.clone();
        Box::pin(async move {
            Ok(match read(request).await {
                Ok(request) => server.handle(&request),
                Err(response) => response,
            })
        })
    }
}
