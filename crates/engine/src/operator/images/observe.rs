//! From a reading to what [`kiln_rollout::next`] reads.

use k8s_openapi::api::core::v1::Node;
use kiln_fleet_api::{Pool, Rollout, RolloutPhase};
use kiln_kubernetes::Owner;
use kiln_prototype::latest::{NewNodes, describe_image, latest, new_nodes, same_definition, version_of};
use kiln_prototype::rollback::rejected_numbers;
use kiln_rollout::{NodeObserved, PoolObserved, Problem, ResolvedTarget};
use kiln_types::{ImageSource, Instance, InstanceId, PoolName, ProviderId, Provisioning, VersionNumber};

use super::{ImageReading, ImageState, Images, OFF};
use crate::operator::index::hold;
use crate::operator::stores::Snapshots;

/// The scale set of a pool.
pub(in crate::operator) fn scale_set(pool: &Pool) -> Option<Result<PoolName, String>> {
    let factory = pool.spec.factory.as_ref()?;
    let parsed = factory.azure_scale_set.parse::<PoolName>();
    Some(parsed.map_err(|error| format!("`spec.factory.azureScaleSet`: {error}")))
}

/// The image version of a rollout, or why nothing may start.
pub(in crate::operator) fn target(
    rollout: &Rollout,
    name: &str,
    view: &Snapshots,
    state: &ImageState,
) -> Result<ResolvedTarget, Problem> {
    let problem = |message: String, object: &str| Err(Problem { message, objects: vec![object.to_owned()] });
    let pool = rollout.spec.pools.first().map(String::as_str).unwrap_or_default();
    let Some(object) = view.pools.get(pool) else {
        return problem(format!("Pool `{pool}` does not exist; create it"), pool);
    };
    let (reading, version) = match (state, scale_set(object)) {
        (ImageState::Off, _) => return problem(OFF.to_owned(), name),
        (_, None) => {
            return problem(format!("Pool `{pool}` has no `spec.factory`; set `azureScaleSet` to its scale set"), pool);
        }
        (_, Some(Err(error))) => return problem(format!("Pool `{pool}`: {error}"), pool),
        (ImageState::Failed(error), _) => return problem(format!("Pool `{pool}` cannot be read: {error}"), pool),
        (ImageState::Unread, _) => return problem(format!("Pool `{pool}` has not been read yet"), pool),
        (ImageState::Read { reading, .. }, _) => (reading, view.versions.get(name)),
    };
    let Some(version) = version else {
        let message = format!("ImageVersion `{name}` does not exist; `kubectl get imageversions` lists those that do");
        return problem(message, name);
    };
    if version.spec.pool != pool {
        let message =
            format!("ImageVersion `{name}` belongs to Pool `{}`; create a Rollout for that one", version.spec.pool);
        return problem(message, name);
    }
    let number = &version.spec.version;
    let resolved = ResolvedTarget { node_config: name.to_owned(), digest: number.clone() };
    let status = version.status.clone().unwrap_or_default();
    let is_rejected = is_rejected(reading, number);
    let phase = rollout.status.as_ref().map(|status| status.phase).unwrap_or_default();
    if is_rejected || phase == RolloutPhase::RollingBack {
        return Ok(resolved);
    }
    if !status.proven {
        let message = format!(
            "ImageVersion `{name}` is not proven: no canary of it has become Ready; run the Prototype of the pool with a canary, and roll out its version"
        );
        return problem(message, name);
    }
    let reading = &reading.reading;
    let image =
        new_nodes(&reading.pool.recipe.image, &reading.definition_name, &reading.versions, &reading.pool.location);
    match image {
        NewNodes::Latest(served) | NewNodes::Pinned(served) if served.as_str() == number => Ok(resolved),
        NewNodes::Latest(served) | NewNodes::Pinned(served) => {
            let message = format!(
                "new machines of Pool `{pool}` get version {served}; roll out that one, or run `kiln prototype rollback --to {number}` first"
            );
            problem(message, name)
        }
        NewNodes::NothingUsable | NewNodes::OtherImage(_) => {
            let message =
                format!("new machines of Pool `{pool}` do not get version {number}; check `kiln prototype status`");
            problem(message, name)
        }
    }
}

fn is_rejected(reading: &ImageReading, number: &str) -> bool {
    let definition = reading.reading.definition.as_ref();
    let rejected = definition.map(|definition| rejected_numbers(&definition.tags)).unwrap_or_default();
    rejected.iter().any(|one| one.as_str() == number)
}

/// The pool of a rollout with an image version.
pub(in crate::operator) fn observe_pool(
    name: &str,
    pool: &Pool,
    version: &str,
    nodes: &[NodeObserved],
    state: &ImageState,
    view: &Snapshots,
) -> PoolObserved {
    let mut observed = PoolObserved { name: name.to_owned(), paused: pool.spec.paused, ..PoolObserved::default() };
    let ImageState::Read { reading, capacity, obstacle } = state else { return observed };
    (observed.capacity, observed.obstacle) = (*capacity, obstacle.clone());
    let reading = &reading.reading;
    let rejected = reading.definition.as_ref().map(|one| rejected_numbers(&one.tags)).unwrap_or_default();
    observed.rejected = rejected.iter().map(ToString::to_string).collect();
    let older: Vec<_> = match version.parse::<VersionNumber>() {
        Ok(number) => reading
            .versions
            .iter()
            .filter(|one| one.number < number && !rejected.contains(&one.number))
            .cloned()
            .collect(),
        Err(_) => Vec::new(),
    };
    observed.previous = latest(&older, &reading.pool.location)
        .map(|one| ResolvedTarget { node_config: format!("{name}-{}", one.number), digest: one.number.to_string() });
    let ids: Vec<ProviderId> = nodes
        .iter()
        .filter_map(|node| provider_id(view.nodes.get(&node.name)?).filter(|id| id.is_of(&reading.pool.name)))
        .collect();
    let has_node = |instance: &Instance| ids.iter().any(|id| is_instance(id, instance));
    let is_target = |instance: &Instance| {
        version_of(&instance.runs, &reading.definition_name).is_some_and(|number| number.as_str() == version)
    };
    let unjoined = reading.instances.iter().filter(|one| is_target(one) && !has_node(one) && !is_deleting(one));
    observed.unjoined = unjoined.map(|instance| instance.id.to_string()).collect();
    observed
}

impl Images {
    /// The machines of a version that have no Node.
    pub(in crate::operator) fn unjoined(&self, set: &PoolName, version: &str, view: &Snapshots) -> Vec<InstanceId> {
        let ImageState::Read { reading, .. } = self.state(set) else { return Vec::new() };
        let reading = &reading.reading;
        let ids: Vec<ProviderId> =
            view.nodes.values().filter_map(|node| provider_id(node)).filter(|id| id.is_of(set)).collect();
        let unjoined = reading.instances.iter().filter(|instance| {
            let number = version_of(&instance.runs, &reading.definition_name);
            let has_node = ids.iter().any(|id| is_instance(id, instance));
            number.is_some_and(|number| number.as_str() == version) && !has_node && !is_deleting(instance)
        });
        unjoined.map(|instance| instance.id.clone()).collect()
    }
}

/// Adds to nodes what their machines run.
pub(in crate::operator) fn nodes(
    observed: &mut [NodeObserved],
    owner: &Owner,
    state: &ImageState,
    own_node: Option<&str>,
    view: &Snapshots,
) {
    let ImageState::Read { reading, .. } = state else { return };
    let reading = &reading.reading;
    for node in observed {
        let Some(object) = view.nodes.get(&node.name) else { continue };
        let Some(id) = provider_id(object).filter(|id| id.is_of(&reading.pool.name)) else { continue };
        let Some(instance) = reading.instances.iter().find(|instance| is_instance(&id, instance)) else { continue };
        let number = version_of(&instance.runs, &reading.definition_name);
        node.image = Some(number.map_or_else(|| describe_image(&instance.runs), ToString::to_string));
        node.stays = stays(node, object, instance, owner, own_node, reading);
    }
}

/// Why a machine is not replaced, by the rules of `kiln prototype refresh`.
fn stays(
    node: &NodeObserved,
    object: &Node,
    instance: &Instance,
    owner: &Owner,
    own_node: Option<&str>,
    reading: &crate::PoolReading,
) -> Option<String> {
    let holder = hold(object).filter(|hold| hold.owner != *owner);
    if own_node == Some(node.name.as_str()) {
        Some("the operator runs on it".to_owned())
    } else if let Some(hold) = holder {
        Some(format!("`{}` holds it", hold.owner))
    } else if instance.protection.from_scale_in || instance.protection.from_pool_actions {
        Some("it is protected".to_owned())
    } else if matches!(&instance.runs, ImageSource::Definition(named) if same_definition(named, &reading.definition_name))
    {
        Some("Azure does not report its version".to_owned())
    } else {
        None
    }
}

/// The instance of a Node.
pub(in crate::operator) fn provider_id(node: &Node) -> Option<ProviderId> {
    node.spec.as_ref()?.provider_id.as_deref()?.parse().ok()
}

fn is_instance(id: &ProviderId, instance: &Instance) -> bool {
    id.instance.as_str().eq_ignore_ascii_case(instance.id.as_str())
}

fn is_deleting(instance: &Instance) -> bool {
    matches!(&instance.provisioning, Provisioning::InProgress(state) if state.eq_ignore_ascii_case("deleting"))
}
