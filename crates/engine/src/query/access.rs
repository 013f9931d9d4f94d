//! Checking each permission before a run needs it.

use std::collections::BTreeMap;
use std::fmt;

use kiln_kubernetes::rbac::{FORCE_PERMISSIONS, PERMISSIONS, Scope};
use kiln_types::{AccessScope, Factory, Grant, Linked, NeededFor, PoolName, allowances};
use serde::Serialize;

use crate::{Context, Error};

/// Where a permission is granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Side {
    Azure,
    Kubernetes,
}

/// A permission and whether it is granted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AccessRow {
    pub side: Side,
    /// As Azure or Kubernetes writes it.
    pub action: String,
    /// A resource id or a namespace; absent for the resource group or the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    pub needed_to: String,
    /// The only command or option that needs it; absent if every run does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub only_for: Option<String>,
    pub allowed: bool,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// All permissions that kiln needs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AccessReport {
    pub rows: Vec<AccessRow>,
}

impl AccessReport {
    /// The permissions that every run needs and that are not granted.
    pub fn missing(&self) -> impl Iterator<Item = &AccessRow> {
        self.rows.iter().filter(|row| !row.allowed && row.only_for.is_none())
    }
}

/// The actions on galleries, which may be in another resource group.
const GALLERIES: &str = "Microsoft.Compute/galleries/";

/// The option that needs [`FORCE_PERMISSIONS`].
pub(crate) const FORCE: &str = "`--force`";

/// Checks each permission that a run on these pools needs.
pub async fn check_access<F: Factory>(context: &Context<F>, names: &[PoolName]) -> Result<AccessReport, Error> {
    let mut linked = Vec::new();
    // If pools cannot be listed, the report shows it.
    for pool in context.pools(names).await.unwrap_or_default() {
        let what = format!("read the resources that `{}` refers to", pool.name);
        linked.extend(context.factory.describe_linked(&pool.name).await.map_err(Error::cloud(what))?.1);
    }
    check_access_to(context, &linked).await
}

/// Checks each permission that a run needs, including those on the resources that its pool refers to.
pub(crate) async fn check_access_to<F: Factory>(
    context: &Context<F>,
    linked: &[Linked],
) -> Result<AccessReport, Error> {
    let mut rows = azure(context, linked).await;
    let permissions = [PERMISSIONS.as_slice(), FORCE_PERMISSIONS.as_slice()].concat();
    for mut access in context.cluster.check_access(&context.namespace, &permissions).await? {
        let permission = access.permission;
        // A server without the Job API grants nothing on Jobs and has none of kamino's.
        if !access.allowed && permission.group == "batch" && context.cluster.kamino_jobs().await.is_ok() {
            (access.allowed, access.reason) = (true, String::new());
        }
        let group = if permission.group.is_empty() { String::new() } else { format!(".{}", permission.group) };
        rows.push(AccessRow {
            side: Side::Kubernetes,
            action: format!("{} {}{group}", permission.verb, permission.resource),
            at: (permission.scope == Scope::Namespace).then(|| context.namespace.to_string()),
            needed_to: permission.needed_to.to_owned(),
            only_for: FORCE_PERMISSIONS.contains(&permission).then(|| FORCE.to_owned()),
            allowed: access.allowed,
            reason: access.reason,
        });
    }
    Ok(AccessReport { rows })
}

async fn azure<F: Factory>(context: &Context<F>, links: &[Linked]) -> Vec<AccessRow> {
    let needs = context.factory.needs();
    let (own, linked): (Vec<_>, Vec<_>) = needs.iter().partition(|need| need.needed_for != NeededFor::Linked);
    let home = grants(context, &AccessScope::Home).await;
    let galleries = match context.factory.gallery_scope() {
        Some(scope) => Some((scope, grants(context, &AccessScope::Galleries).await)),
        None => None,
    };
    let row = |need: &kiln_types::Need, at: Option<String>, found: &Result<Vec<Grant>, String>| {
        let (allowed, reason) = match found {
            Ok(grants) => (allowances(&[*need], grants)[0].allowed, String::new()),
            Err(reason) => (false, reason.clone()),
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
    let own_row = |need: &kiln_types::Need| match &galleries {
        Some((scope, grants)) if need.action.starts_with(GALLERIES) => row(need, Some(scope.clone()), grants),
        _ => row(need, None, &home),
    };
    let mut rows: Vec<AccessRow> = own.into_iter().map(own_row).collect();
    let mut resources: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for link in links {
        let actions = resources.entry(&link.resource).or_default();
        if !actions.contains(&link.action.as_str()) {
            actions.push(&link.action);
        }
    }
    for (resource, actions) in resources {
        let needs: Vec<_> = linked.iter().filter(|need| actions.contains(&need.action)).collect();
        let inherited = |need: &kiln_types::Need| row(need, None, &home).allowed;
        // A role that grants everything on the resource group need not be read again for each resource in it.
        let found = if context.factory.is_home(resource) && needs.iter().all(|need| inherited(need)) {
            &home
        } else {
            &grants(context, &AccessScope::Resource(resource.to_owned())).await
        };
        rows.extend(needs.into_iter().map(|need| row(need, Some(resource.to_owned()), found)));
    }
    rows
}

/// The permissions that roles grant at a scope, or why they cannot be read.
async fn grants<F: Factory>(context: &Context<F>, scope: &AccessScope) -> Result<Vec<Grant>, String> {
    context.factory.permissions(scope).await.map_err(|error| error.to_string())
}

impl fmt::Display for AccessRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = if self.allowed { "allowed" } else { "MISSING" };
        let side = match self.side {
            Side::Azure => "azure",
            Side::Kubernetes => "kubernetes",
        };
        write!(f, "{state}  {side:<10}  {}", self.action)?;
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
            0 => writeln!(f, "all permissions that a run needs are granted"),
            1 => writeln!(f, "1 permission that every run needs is missing"),
            n => writeln!(f, "{n} permissions that every run needs are missing"),
        }
    }
}
