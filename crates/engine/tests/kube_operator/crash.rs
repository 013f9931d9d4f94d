//! A layer that makes an operator die at a chosen write, and the test that does so at every write of a rollout.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};

use http::{Method, Request};
use kiln_fleet_api::{NodeState, Pool, Rollout, RolloutPhase};
use kube::client::Body;
use serde_json::json;
use tower::{Layer, Service};

use crate::kilnd::Behaviour;
use crate::world::World;

/// Lets a number of writes pass. The last one reaches the server, its response is lost, and nothing is sent after it. Writes to leases do not
/// count, because their number depends on time.
#[derive(Clone)]
pub(crate) struct CrashLayer(Arc<Crash>);

struct Crash {
    left: AtomicUsize,
    writes: AtomicUsize,
    dead: AtomicBool,
}

impl CrashLayer {
    /// Dies at this write, counted from 1.
    pub(crate) fn at(write: usize) -> Self {
        Self(Arc::new(Crash {
            left: AtomicUsize::new(write),
            writes: AtomicUsize::default(),
            dead: AtomicBool::default(),
        }))
    }

    pub(crate) fn never() -> Self {
        Self::at(usize::MAX)
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.0.dead.load(Ordering::SeqCst)
    }

    pub(crate) fn writes(&self) -> usize {
        self.0.writes.load(Ordering::SeqCst)
    }
}

impl<S> Layer<S> for CrashLayer {
    type Service = CrashService<S>;

    fn layer(&self, inner: S) -> CrashService<S> {
        CrashService { crash: self.0.clone(), inner }
    }
}

#[derive(Clone)]
pub(crate) struct CrashService<S> {
    crash: Arc<Crash>,
    inner: S,
}

impl<S> Service<Request<Body>> for CrashService<S>
where
    S: Service<Request<Body>>,
    S::Future: Send + 'static,
    S::Response: Send + 'static,
    S::Error: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let crash = self.crash.clone();
        if crash.dead.load(Ordering::SeqCst) {
            return Box::pin(std::future::pending());
        }
        if request.method() == Method::GET || request.uri().path().contains("/leases") {
            return Box::pin(self.inner.call(request));
        }
        crash.writes.fetch_add(1, Ordering::SeqCst);
        let is_last = crash.left.fetch_sub(1, Ordering::SeqCst) == 1;
        if is_last {
            crash.dead.store(true, Ordering::SeqCst);
        }
        let response = self.inner.call(request);
        Box::pin(async move {
            let response = response.await;
            if is_last {
                drop(response);
                return std::future::pending().await;
            }
            response
        })
    }
}

/// Two nodes that reboot, one after the other.
async fn small_rollout(world: &World) -> String {
    world.nodes(2).await;
    world.pool().await;
    let digest = world.document("web-1", json!({"version": "1.33.1"})).await;
    let policy = json!({"budgets": [{"maxUnavailable": 1}]});
    world.rollout("small", "web-1", policy).await;
    digest
}

/// The rollout is complete, each node was rebooted once, and nothing is left behind.
async fn assert_complete(world: &World, digest: &str, at: usize) {
    let status = world.until_phase("small", RolloutPhase::Complete).await;
    assert_eq!((status.updated, status.failed, status.total), (2, 0, 2), "write {at}");
    for state in world.list::<NodeState>().await {
        let node = state.metadata.name.unwrap();
        let reported = state.status.unwrap();
        assert_eq!(reported.current.unwrap().digest, digest, "write {at}: `{node}`");
        assert_eq!(reported.boot_id, "boot-2", "write {at}: `{node}` reboots exactly once");
    }
    let target = world.get::<Pool>("web").await.status.unwrap().target.unwrap();
    assert_eq!(target.digest.as_deref(), Some(digest), "write {at}");
    let finished = async || world.get::<Rollout>("small").await.metadata.finalizers.unwrap_or_default().is_empty();
    world.until("the finalizer is removed", finished).await;
    world.assert_released().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn operator_that_dies_at_any_write_is_continued_by_the_next_one() {
    let world = World::new().await;
    let kilnd = world.kilnd();
    let mut at = 1;
    loop {
        let digest = small_rollout(&world).await;
        kilnd.on(&digest, Behaviour::Reboot);
        let layer = CrashLayer::at(at);
        let first = world.crashing_operator("operator", &layer);
        let ended = async || layer.is_dead() || world.status("small").await.phase.is_final();
        world.until("the operator dies, or the rollout ends", ended).await;
        let is_over = !layer.is_dead();
        drop(first);
        let second = world.operator("operator");
        assert_complete(&world, &digest, at).await;
        second.stop().await;
        if is_over {
            break;
        }
        world.clear().await;
        at += 1;
    }
    // Finalizer, status, two assignments, holds, consents, reboots and releases, and the pool at least.
    assert!(at > 15, "only {at} writes were tried");
}

#[tokio::test(flavor = "multi_thread")]
async fn rollout_that_is_complete_costs_no_further_writes() {
    let world = World::new().await;
    let kilnd = world.kilnd();
    let digest = small_rollout(&world).await;
    kilnd.on(&digest, Behaviour::Reboot);
    let layer = CrashLayer::never();
    let operator = world.crashing_operator("operator", &layer);
    assert_complete(&world, &digest, 0).await;
    // The statuses of the other objects follow in the same pass.
    let settled = async || {
        let before = layer.writes();
        tokio::time::sleep(std::time::Duration::from_secs(2)).await;
        layer.writes() == before
    };
    world.until("the writes end", settled).await;
    let writes = layer.writes();
    let other = world.operator("standby");
    world.create::<kiln_fleet_api::Freeze>(json!({"metadata": {"name": "f"}, "spec": {"reason": "test"}})).await;
    let shown = async || world.get::<kiln_fleet_api::Freeze>("f").await.status.is_some();
    world.until("the status of the freeze is written", shown).await;
    assert_eq!(layer.writes(), writes + 1, "a freeze costs one status: {:#?}", operator.lines());
    drop(other);
    operator.stop().await;
}
