//! `kiln rollout list` and `kiln rollout history`.

use kiln_fleet_api::{Pool, Rollout};
use kube::ResourceExt as _;
use serde::Serialize;

use crate::bootstrap::show::table;
use crate::failure::Failure;
use crate::fleet::objects::{created_at, existing, is_open, owner, status};
use crate::fleet::{Session, failure};

/// A rollout in a list.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    name: String,
    target: String,
    pools: Vec<String>,
    phase: &'static str,
    wave: String,
    updated: i64,
    total: i64,
    failed: i64,
    waiting_for: Option<String>,
    created_at: String,
    started_at: Option<String>,
    ended_at: Option<String>,
    owner: String,
}

impl Row {
    fn new(rollout: &Rollout) -> Self {
        let status = status(rollout);
        Self {
            name: rollout.name_any(),
            target: rollout.spec.target.name().to_owned(),
            pools: rollout.spec.pools.clone(),
            phase: status.phase.as_str(),
            wave: status.wave_text,
            updated: status.updated,
            total: status.total,
            failed: status.failed,
            waiting_for: status.waiting_for.map(|waiting| waiting.message),
            created_at: created_at(rollout),
            started_at: status.started_at,
            ended_at: status.ended_at,
            owner: owner(rollout),
        }
    }

    fn updated(&self) -> String {
        format!("{}/{}", self.updated, self.total)
    }
}

/// Sorts rollouts by their age, newest first.
pub(super) fn sort(rollouts: &mut [Rollout]) {
    rollouts.sort_by_key(|rollout| std::cmp::Reverse((created_at(rollout), rollout.name_any())));
}

pub(super) async fn list(session: &Session) -> Result<(), Failure> {
    let rows = rows(session, is_open).await?;
    session.print(&rows, |rows| {
        if rows.is_empty() {
            return "no rollout is open; `kiln rollout history` lists the ended ones\n".to_owned();
        }
        let rows = rows.iter().map(|row| {
            let waiting = row.waiting_for.clone().unwrap_or_default();
            [
                row.name.clone(),
                row.pools.join(","),
                row.phase.to_owned(),
                row.wave.clone(),
                row.updated(),
                row.failed.to_string(),
                waiting,
            ]
        });
        table(["NAME", "POOLS", "PHASE", "WAVE", "UPDATED", "FAILED", "WAITING FOR"], rows)
    })
}

pub(super) async fn history(session: &Session, pool: Option<&str>) -> Result<(), Failure> {
    if let Some(pool) = pool {
        existing::<Pool>(session, pool).await?;
    }
    let of_pool = |rollout: &Rollout| pool.is_none_or(|pool| rollout.spec.pools.iter().any(|name| name == pool));
    let rows = rows(session, of_pool).await?;
    session.print(&rows, |rows| {
        if rows.is_empty() {
            return "no rollouts\n".to_owned();
        }
        let time = |time: &Option<String>| time.clone().unwrap_or_else(|| "-".to_owned());
        let rows = rows.iter().map(|row| {
            [
                row.name.clone(),
                row.target.clone(),
                row.pools.join(","),
                row.phase.to_owned(),
                row.updated(),
                row.failed.to_string(),
                time(&row.started_at),
                time(&row.ended_at),
            ]
        });
        table(["NAME", "TARGET", "POOLS", "PHASE", "UPDATED", "FAILED", "STARTED", "ENDED"], rows)
    })
}

async fn rows(session: &Session, keep: impl Fn(&Rollout) -> bool) -> Result<Vec<Row>, Failure> {
    let mut all = session.fleet.list::<Rollout>().await.map_err(failure)?;
    sort(&mut all);
    Ok(all.iter().filter(|rollout| keep(rollout)).map(Row::new).collect())
}
