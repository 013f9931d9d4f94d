//! Asking for each permission before a run needs it.

use std::collections::BTreeMap;
use std::fmt;

use kiln_kubernetes::rbac::{PERMISSIONS, Scope};
use kiln_types::{AccessScope, Factory, Grant, NeededFor, PoolName, allowances};
use serde::Serialize;

use crate::side::Error;
use crate::{Context, Error};

/// Whom a permission is asked of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Side {
    Azure,
    Kubernetes,
}

/// One permission.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AccessRow {
    /// Whose it is.
    pub side: Side,
    /// The action, in their words.
    pub action: String,
    /// Where it is needed: a resource id or a namespace; none is the resource group or the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// What fails without it.
    pub needed_to: String,
    /// The one command or option that needs it; none is every run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub only_for: Option<String>,
    /// Whether it is granted.
    pub allowed: bool,
    /// What was said about it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// All permissions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AccessReport {
    /// A row for each.
    pub rows: Vec<AccessRow>,
}

impl AccessReport {
    /// What every run needs and is not granted.
    pub fn missing(&self) -> impl Iterator<Item = &AccessRow> {
        self.rows.iter().filter(|row| !row.allowed && row.only_for.is_none())
    }
}

/// Asks the cloud and the cluster for each permission that a run on these pools needs. Nothing is written.
pub async fn check_access<F: Factory>(context: &Context<F>, asked: &[PoolName]) -> Result<AccessReport, Error> {
    let mut rows = azure(context, asked).await?;
    for mut access in context.cluster.access(&context.namespace, &PERMISSIONS).await? {
        let permission = access.permission;
        // A server that does not know Jobs grants nothing on them, and has none of kamino's.
        if !access.allowed && permission.group == "batch" && context.cluster.rivals().await.is_ok() {
            (access.allowed, access.reason) = (true, String::new());
        }
        let group = if permission.group.is_empty() { String::new() } else { format!(".{}", permission.group) };
        rows.push(AccessRow {
            side: Side::Kubernetes,
            action: format!("{} {}{group}", permission.verb, permission.resource),
            at: (permission.scope == Scope::Namespace).then(|| context.namespace.to_string()),
            needed_to: permission.needed_to.to_owned(),
            only_for: None,
            allowed: access.allowed,
            reason: access.reason,
        });
    }
    Ok(AccessReport { rows })
}

async fn azure<F: Factory>(context: &Context<F>, asked: &[PoolName]) -> Result<Vec<AccessRow>, Error> {
    let needs = context.factory.needs();
    let (own, linked): (Vec<_>, Vec<_>) = needs.iter().partition(|need| need.needed_for != NeededFor::Linked);
    let home = grants(context, &AccessScope::Home).await;
    let row = |need: &kiln_types::Need, at: Option<String>, found: &Result<Vec<Grant>, String>| {
        let (allowed, reason) = match found {
            Ok(grants) => (allowances(&[*need], grants)[0].allowed, String::new()),
            Err(said) => (false, said.clone()),
        };
        AccessRow {
            side: Side::Azure,
            action: need.action.to_owned(),
            at,
            needed_to: need.needed_to.to_owned(),
            only_for: match need.needed_for {
                NeededFor::Only(what) => Some(what.to_owned()),
                NeededFor::EveryRun | NeededFor::Linked => None,
            },
            allowed,
            reason,
        }
    };
    let mut rows: Vec<AccessRow> = own.into_iter().map(|need| row(need, None, &home)).collect();
    // A caller that may not even list the pools learns so from the rows above.
    let Ok(pools) = context.pools(asked).await else { return Ok(rows) };
    let mut resources: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for pool in &pools {
        let what = format!("read what `{}` refers to", pool.name);
        for link in context.factory.linked(&pool.name).await.map_err(Error::cloud(what))? {
            let actions = resources.entry(link.resource).or_default();
            if !actions.contains(&link.action) {
                actions.push(link.action);
            }
        }
    }
    for (resource, actions) in resources {
        let found = grants(context, &AccessScope::Resource(resource.clone())).await;
        let of_resource = linked.iter().filter(|need| actions.iter().any(|action| action == need.action));
        rows.extend(of_resource.map(|need| row(need, Some(resource.clone()), &found)));
    }
    Ok(rows)
}

/// What roles grant at a scope, or why that is not known: who may not ask has nothing there that is known.
async fn grants<F: Factory>(context: &Context<F>, scope: &AccessScope) -> Result<Vec<Grant>, String> {
    context.factory.permissions(scope).await.map_err(|error| error.to_string())
}

impl fmt::Display for AccessRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.allowed { "allowed" } else { "MISSING" };
        let side = match self.side {
            Side::Azure => "azure",
            Side::Kubernetes => "kubernetes",
        };
        write!(f, "{word}  {side:<10}  {}", self.action)?;
        if let Some(at) = &self.at {
            write!(f, " at {at}")?;
        }
        write!(f, ": {}", self.needed_to)?;
        if let Some(only) = &self.only_for {
            write!(f, " ({only} only)")?;
        }
        if !self.allowed && !self.reason.is_empty() {
            write!(f, "; {}", self.reason)?;
        }
        Ok(())
    }
}

impl fmt::Display for AccessReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.rows.iter().try_for_each(|row| writeln!(f, "{row}"))?;
        let missing = self.missing().count();
        match missing {
            0 => writeln!(f, "all that a run needs is allowed"),
            1 => writeln!(f, "1 permission that every run needs is missing"),
            n => writeln!(f, "{n} permissions that every run needs are missing"),
        }
    }
}
