//! The API server as an object that several tasks share, and as a tower service: what `kube::Client` can be built on.

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

/// What is read of a request at most: the real server's limit.
const BODY_LIMIT: usize = 3 << 20;

/// How often a watch that takes bookmarks gets one: as often as the real server's, about.
const BOOKMARK: Duration = Duration::from_mins(1);

/// Tells the time of the cluster.
pub type Clock = Arc<dyn Fn() -> Timestamp + Send + Sync>;

/// The body of an answer: whole, or without an end for a watch.
pub type Body = UnsyncBoxBody<Bytes, Infallible>;

/// An API server. Clones are the same one.
#[derive(Clone)]
pub struct Server(Arc<Inner>);

struct Inner {
    cluster: Mutex<Cluster>,
    clock: Clock,
    beat: Sender<Beat>,
}

/// What those who wait are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Beat {
    revision: u64,
    closed: bool,
}

impl fmt::Debug for Server {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Server").field("revision", &self.lock().store.revision()).finish_non_exhaustive()
    }
}

impl Server {
    /// A new cluster in memory. `seed` makes what looks random.
    pub fn new(seed: u64, clock: Clock) -> Self {
        let cluster = Cluster::new(seed, clock());
        Self::of(cluster, clock)
    }

    /// The cluster in a state folder, made there when the folder has none. What was answered before a crash is there again.
    pub fn open(folder: &Path, seed: u64, clock: Clock) -> Result<Self, JournalError> {
        Ok(Self::of(Cluster::open(folder, seed, clock())?, clock))
    }

    fn of(cluster: Cluster, clock: Clock) -> Self {
        let (beat, _) = channel(Beat { revision: cluster.store.revision(), closed: false });
        Self(Arc::new(Inner { cluster: Mutex::new(cluster), clock, beat }))
    }

    /// The same server, which from now on gives a node to pods that have none.
    #[must_use]
    pub fn with_scheduler(self) -> Self {
        self.lock().schedules = true;
        self
    }

    /// Answers a request. The answer to a watch goes on until the client goes, time is up, or [`Server::close`] ends it.
    pub fn answer(&self, request: &Request<Bytes>) -> Response<Body> {
        let mut cluster = self.lock();
        let outcome = cluster.answer(request, (self.0.clock)());
        self.told(&cluster);
        drop(cluster);
        match outcome {
            Outcome::Answer(response) => response.map(whole),
            Outcome::Watch(watch) => {
                let mut response = Response::new(self.stream(*watch));
                response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
                response
            }
        }
    }

    /// Does what is due by time alone. Requests do so too; a server that nobody asks needs it.
    pub fn tick(&self) {
        let mut cluster = self.lock();
        if let Err(error) = cluster.pass((self.0.clock)()) {
            eprintln!("the cluster could not be saved: {error}");
        }
        self.told(&cluster);
    }

    /// Ends all watches, those to come too.
    pub fn close(&self) {
        self.0.beat.send_modify(|beat| beat.closed = true);
    }

    /// The server as a service, for clients in the same process. Nobody is asked for a token.
    pub fn service(&self) -> Service {
        Service(self.clone())
    }

    fn told(&self, cluster: &Cluster) {
        let revision = cluster.store.revision();
        self.0.beat.send_if_modified(|beat| {
            let news = beat.revision != revision;
            beat.revision = revision;
            news
        });
    }

    fn lock(&self) -> MutexGuard<'_, Cluster> {
        // A handler that panicked is a bug that its test shows; the others go on.
        self.0.cluster.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stream(&self, watch: Watch) -> Body {
        let now = Instant::now();
        let ends = now + Duration::from_secs(watch.lasts);
        let under_way =
            UnderWay { server: self.clone(), watch, beat: self.0.beat.subscribe(), ends, bookmark: now + BOOKMARK };
        let frames = stream::unfold(Some(under_way), |under_way| async {
            let mut under_way = under_way?;
            let lines = under_way.next().await?;
            let rest = (!under_way.watch.is_over()).then_some(under_way);
            Some((Ok::<_, Infallible>(Frame::data(Bytes::from(lines))), rest))
        });
        BodyExt::boxed_unsync(StreamBody::new(frames))
    }
}

/// A watch that a client reads.
struct UnderWay {
    server: Server,
    watch: Watch,
    beat: Receiver<Beat>,
    ends: Instant,
    bookmark: Instant,
}

impl UnderWay {
    /// The next lines, or `None` at the end.
    async fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            // Seen before the look at the store: what comes in between wakes us again.
            let closed = self.beat.borrow_and_update().closed;
            let now = (self.server.0.clock)();
            let lines = self.watch.due(&self.server.lock().store, now);
            if !lines.is_empty() {
                return Some(lines);
            }
            if closed || self.watch.is_over() {
                return None;
            }
            tokio::select! {
                changed = self.beat.changed() => changed.ok()?,
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

/// The answer that is a refusal.
pub(crate) fn refusal(error: &ApiError) -> Response<Body> {
    error.response().map(whole)
}

/// A request with all of its body, or the refusal.
pub(crate) async fn read<B>(request: Request<B>) -> Result<Request<Bytes>, Response<Body>>
where
    B: http_body::Body,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let (parts, body) = request.into_parts();
    match Limited::new(body, BODY_LIMIT).collect().await {
        Ok(body) => Ok(Request::from_parts(parts, body.to_bytes())),
        Err(error) if error.is::<http_body_util::LengthLimitError>() => {
            Err(refusal(&ApiError::too_large_body(BODY_LIMIT)))
        }
        Err(error) => Err(refusal(&ApiError::bad(format!("the request could not be read: {error}")))),
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
                Ok(request) => server.answer(&request),
                Err(refusal) => refusal,
            })
        })
    }
}
