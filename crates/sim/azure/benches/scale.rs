//! Scaling of request costs: each row doubles the number of instances and shows the cost per instance relative to the first row. A column
//! of 1.0 is linear.

use std::hint::black_box;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Request;
use jiff::Timestamp;
use kiln_sim_azure::{Options, PoolSpec, Sim, WorldSpec};
use serde_json::Value;

const INSTANCES_PER_POOL: u32 = 100;
/// The best of this many runs, because noise on a shared machine only adds time.
const TRIES: usize = 3;

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let _guard = runtime.enter();
    println!("instances   create       list all   scale out by one   bytes of one pool's list");
    let mut first: Option<[f64; 3]> = None;
    for pools in [6, 12, 25, 50, 100] {
        let (costs, bytes) = measure(pools);
        let count = f64::from(pools * INSTANCES_PER_POOL);
        // Creating and listing are measured per instance; adding one instance should take constant time.
        let per = [costs[0] / count, costs[1] / count, costs[2]];
        let base = *first.get_or_insert(per);
        println!(
            "{count:>9}   {:>10.2}   {:>8.2}   {:>16.2}   {bytes:>24}",
            per[0] / base[0],
            per[1] / base[1],
            per[2] / base[2]
        );
    }
}

/// Seconds to create the state, to list its instances, and to add one.
fn measure(pools: u32) -> ([f64; 3], usize) {
    let spec = spec_with(pools);
    let (made, sim) = best(|| Sim::new(spec.clone(), Options::instant(Timestamp::UNIX_EPOCH)).expect("a simulation"));
    let token = login(&sim);
    let mut bytes = 0;
    let (listed, ()) = best(|| {
        for pool in 0..pools {
            let mut next =
                Some(format!("https://sim.localhost{}/virtualMachines?api-version=2024-03-01", scale_set(&sim, pool)));
            while let Some(url) = next {
                let body = get(&sim, &token, &url);
                bytes = body.to_string().len();
                next = body["nextLink"].as_str().map(str::to_owned);
            }
        }
    });
    let mut capacity = INSTANCES_PER_POOL;
    let (scaled, ()) = best(|| {
        capacity += 1;
        let body = format!("{{\"sku\":{{\"name\":\"Standard_D2s_v3\",\"capacity\":{capacity}}}}}");
        let request = Request::patch(format!("https://sim.localhost{}?api-version=2024-03-01", scale_set(&sim, 0)))
            .header("authorization", format!("Bearer {token}"))
            .body(Bytes::from(body))
            .expect("a request");
        black_box(sim.arm(request).answer().expect("an answer"));
        black_box(sim.now());
    });
    ([made, listed, scaled], bytes)
}

fn spec_with(pools: u32) -> WorldSpec {
    let template: PoolSpec = WorldSpec::default().pools.remove(0);
    let pools = (0..pools).map(|number| PoolSpec {
        name: format!("pool{number:03}-vmss"),
        capacity: INSTANCES_PER_POOL,
        ..template.clone()
    });
    WorldSpec { pools: pools.collect(), ..WorldSpec::default() }
}

fn scale_set(sim: &Sim, pool: u32) -> String {
    let spec = sim.spec();
    format!(
        "/subscriptions/{}/resourceGroups/{}/providers/Microsoft.Compute/virtualMachineScaleSets/pool{pool:03}-vmss",
        spec.subscription_id, spec.resource_group
    )
}

fn login(sim: &Sim) -> String {
    let spec = sim.spec();
    let client = &spec.clients[0];
    let form = format!(
        "grant_type=client_credentials&client_id={}&client_secret={}&scope=https://sim.localhost/.default",
        client.client_id, client.client_secret
    );
    let request = Request::post(format!("https://sim.localhost/{}/oauth2/v2.0/token", spec.tenant_id))
        .header("content-type", "application/x-www-form-urlencoded")
        .body(Bytes::from(form))
        .expect("a request");
    json(sim, request)["access_token"].as_str().expect("a token").to_owned()
}

fn get(sim: &Sim, token: &str, url: &str) -> Value {
    json(
        sim,
        Request::get(url).header("authorization", format!("Bearer {token}")).body(Bytes::new()).expect("a request"),
    )
}

fn json(sim: &Sim, request: Request<Bytes>) -> Value {
    serde_json::from_slice(sim.arm(request).answer().expect("an answer").body()).expect("json")
}

#[expect(clippy::disallowed_methods, reason = "a bench measures time")]
fn best<T>(mut work: impl FnMut() -> T) -> (f64, T) {
    let mut shortest = Duration::MAX;
    let mut last = None;
    for _ in 0..TRIES {
        let start = Instant::now();
        last = Some(work());
        shortest = shortest.min(start.elapsed());
    }
    (shortest.as_secs_f64(), last.expect("at least one try"))
}
