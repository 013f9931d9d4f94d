//! The effects of actions, with planned faults.

use kiln_prototype::action::Action;
use kiln_prototype::journal::StepFailure;
use kiln_prototype::run::Header;
use kiln_prototype::step::Step;
use kiln_types::{
    ErrorClass, FREEZE_WINDOW, Failure, FreezeEnd, FreezeReport, ImageSource, ImageVersion, OperationHandle, PowerDown,
    PowerState, Provisioning, Publication, RegionProgress, Revision, SmokeTest, Snapshot, SnapshotRequest, Storage,
    ThawReport, VersionNumber, VersionState,
};

use super::{CanaryPool, DONOR, Effect, Version, World};
use crate::fault::Fault;

type Accepted = Result<Option<OperationHandle>, StepFailure>;

fn refused(class: ErrorClass, message: &str) -> Accepted {
    Err(StepFailure::new(class, message))
}

impl World {
    /// Performs an action, unless a fault prevents it.
    pub(crate) fn act(&mut self, step: Step, action: &Action, header: &Header, run: &str) -> Accepted {
        let name = action_name(action);
        let cost = match action {
            Action::SaveRecipe
            | Action::HoldNode
            | Action::ReleaseNode
            | Action::Drain
            | Action::InstallFirstBoot
            | Action::Thaw => 0,
            // The regions of a version are read before they are written.
            Action::Include(_) => 2,
            _ => 1,
        };
        self.count(cost, &format!("act {step} {name}"));
        let fault = self.faults.draw(&format!("act {step} {name}"));
        match &fault {
            Some(Fault::Throttled) => return refused(ErrorClass::Throttled, "429 TooManyRequests"),
            Some(Fault::ServerError) => return refused(ErrorClass::Transient, "500 InternalServerError"),
            Some(Fault::Permission) => return refused(ErrorClass::Permission, "403 AuthorizationFailed"),
            Some(Fault::Capacity) => return refused(ErrorClass::Capacity, "AllocationFailed"),
            // The response has the tags, and a deletion ends when the resource is gone.
            Some(Fault::NoEffect) if matches!(action, Action::TagPool { .. }) => {
                return refused(ErrorClass::Transient, "the tags have not changed");
            }
            Some(Fault::NoEffect) => {
                let is_deletion = matches!(
                    action,
                    Action::DeleteSnapshot
                        | Action::DeleteCanary
                        | Action::DeleteVersion(_)
                        | Action::RemoveExtension(_)
                );
                let message = "the resource still exists".to_owned();
                let lost = Failure { code: "OperationLost".to_owned(), message, class: ErrorClass::Transient };
                return Ok(Some(self.begin(std::time::Duration::ZERO, Effect::Nothing, is_deletion.then_some(lost))));
            }
            _ => {}
        }
        self.acts.push(format!("{step} {name}"));
        let fails = match fault {
            Some(Fault::OperationFails(class)) => {
                Some(Failure { code: "InternalOperationError".to_owned(), message: "it failed".to_owned(), class })
            }
            _ => None,
        };
        let accepted = self.perform(action, header, run, fails);
        self.check_invariants();
        match fault {
            Some(Fault::LostResponse) => refused(ErrorClass::Transient, "the connection was reset"),
            Some(Fault::OperationForgotten) => {
                if let Some(operation) = self.operations.last_mut() {
                    operation.forgotten = true;
                }
                accepted
            }
            _ => accepted,
        }
    }

    #[expect(clippy::too_many_lines, reason = "one arm per action")]
    fn perform(&mut self, action: &Action, header: &Header, run: &str, fails: Option<Failure>) -> Accepted {
        let write = self.pace.write;
        match action {
            Action::TagPool { pool, tags } => {
                self.matches(pool.revision.as_ref())?;
                self.pool.tags.extend(tags.clone());
                self.touch();
                Ok(Some(self.begin(write, Effect::Nothing, None)))
            }
            Action::SetRecipe { change, revision } => {
                self.matches(Some(revision))?;
                if let Some(image) = &change.image {
                    self.pool.recipe.image = image.clone();
                }
                self.bootstraps &= change.custom_data.is_none();
                self.touch();
                Ok(Some(self.begin(write, Effect::Nothing, None)))
            }
            Action::RemoveExtension(name) => Ok(Some(self.begin(write, Effect::ExtensionGone(name.clone()), fails))),
            Action::AddInstances { pool, more } => {
                self.matches(pool.revision.as_ref())?;
                self.scale_out(*more);
                self.additions += 1;
                self.require(self.additions <= 1, "nodes were added twice");
                Ok(Some(self.begin(write, Effect::Nothing, None)))
            }
            Action::CreateGallery(gallery) => {
                self.gallery.get_or_insert_with(|| gallery.clone());
                Ok(Some(self.begin(write, Effect::Nothing, None)))
            }
            Action::CreateDefinition(definition) => {
                if self.gallery.is_none() {
                    return refused(ErrorClass::NotFound, "ParentResourceNotFound");
                }
                self.definition.get_or_insert_with(|| definition.as_ref().clone());
                Ok(Some(self.begin(write, Effect::Nothing, None)))
            }
            Action::TagDefinition { tags, .. } => {
                let Some(definition) = &mut self.definition else {
                    return refused(ErrorClass::NotFound, "no such definition");
                };
                definition.tags.extend(tags.clone());
                Ok(Some(self.begin(write, Effect::Nothing, None)))
            }
            Action::SaveRecipe => {
                self.require(self.bootstraps || self.saved, "a recipe was saved after it was changed");
                self.saved = true;
                Ok(None)
            }
            Action::LiveSnapshot(request) => self.live_snapshot(request, header, fails),
            Action::Thaw => {
                self.maybe_frozen = false;
                Ok(None)
            }
            Action::HoldNode | Action::ReleaseNode | Action::Drain | Action::InstallFirstBoot => {
                self.on_node(action, header, run)
            }
            Action::SetProtection { instance, protection } => {
                let Some(donor) = self.machines.get_mut(&DONOR) else {
                    return refused(ErrorClass::NotFound, "no such instance");
                };
                if instance.revision != Some(Revision::new(format!("i{}", donor.etag))) {
                    return refused(ErrorClass::Precondition, "412 PreconditionFailed");
                }
                (donor.protection, donor.etag) = (*protection, donor.etag + 1);
                Ok(None)
            }
            Action::RestoreProtection(protection) => {
                let Some(donor) = self.machines.get_mut(&DONOR) else {
                    return refused(ErrorClass::NotFound, "no such instance");
                };
                (donor.protection, donor.etag) = (*protection, donor.etag + 1);
                Ok(None)
            }
            Action::PowerOff(how) => self.power_off(*how, fails),
            Action::Start => self.start(fails),
            Action::Snapshot(_) if self.donor().is_none() => refused(ErrorClass::NotFound, "no such disk"),
            Action::Snapshot(request) => Ok(Some(self.snapshot(request, header, fails))),
            Action::DeleteSnapshot => {
                let source = self.snapshot.as_ref().map(|snapshot| snapshot.id.clone());
                let making = self.versions.values().any(|version| version.read.state == VersionState::Creating);
                self.require(source.is_none() || !making, "a snapshot was deleted while a version was created from it");
                Ok(Some(self.begin(write, Effect::SnapshotGone, fails)))
            }
            Action::Publish(publication) => self.publish(publication, fails),
            Action::DeleteVersion(number) => Ok(Some(self.delete_version(number, fails))),
            Action::Include(number) => {
                let Some(version) = self.versions.get_mut(number) else {
                    return refused(ErrorClass::NotFound, "no such version");
                };
                let tested = version.tested;
                version.read.state = VersionState::Updating;
                self.require(tested || !self.needs_canary, "a version was included before it was tested");
                Ok(Some(self.begin(write, Effect::Included(number.clone()), fails)))
            }
            Action::CreateCanary(canary) => {
                let usable = |version: &Version| version.read.state == VersionState::Succeeded;
                if !self.versions.get(&canary.number).is_some_and(usable) {
                    return refused(ErrorClass::NotFound, "no such version");
                }
                if self.canary.is_some() {
                    return refused(ErrorClass::Precondition, "412 PreconditionFailed");
                }
                self.require(
                    canary.bootstrap.is_some() == self.needs_recipe,
                    "the canary does not join in the way of the pool's new nodes",
                );
                let version = canary.number.clone();
                self.canary =
                    Some(CanaryPool { version, up_since: None, deleting: false, failed: None, smoke_test: None });
                Ok(Some(self.begin(write, Effect::CanaryMade, fails)))
            }
            Action::RunSmokeTest => {
                if let Some(canary) = &mut self.canary {
                    canary.smoke_test = Some(SmokeTest::Succeeded);
                }
                Ok(None)
            }
            Action::DeleteCanary => {
                if let Some(canary) = &mut self.canary {
                    canary.deleting = true;
                }
                Ok(Some(self.begin(write, Effect::CanaryGone, fails)))
            }
        }
    }

    fn matches(&self, revision: Option<&Revision>) -> Result<(), StepFailure> {
        if revision == self.pool.revision.as_ref() {
            Ok(())
        } else {
            Err(StepFailure::new(ErrorClass::Precondition, "412 PreconditionFailed"))
        }
    }

    fn on_node(&mut self, action: &Action, header: &Header, run: &str) -> Accepted {
        if *action == Action::ReleaseNode {
            let is_up = self.donor().is_none_or(|donor| self.reports(donor));
            self.require(is_up, "the node was released before its kubelet was running");
        }
        let Some(node) = self.nodes.get_mut(header.donor.node.as_str()) else {
            return refused(ErrorClass::NotFound, "no such node");
        };
        match action {
            Action::HoldNode => match &node.hold {
                Some((owner, ..)) if owner == run => {}
                Some(_) => return refused(ErrorClass::Busy, "the node is held by another run"),
                None => {
                    node.hold = Some((run.to_owned(), node.cordoned, node.autoscaler.clone()));
                    node.cordoned |= !header.options.live;
                    node.autoscaler = Some("true".to_owned());
                }
            },
            Action::ReleaseNode => {
                if let Some((_, cordoned, autoscaler)) = node.hold.take_if(|(owner, ..)| owner == run) {
                    (node.cordoned, node.autoscaler) = (cordoned, autoscaler);
                }
            }
            Action::Drain => {
                node.pods = 0;
                let cordoned = node.cordoned;
                self.require(cordoned, "a node was drained that was not cordoned");
            }
            _ => node.first_boot = true,
        }
        Ok(None)
    }

    fn power_off(&mut self, how: PowerDown, fails: Option<Failure>) -> Accepted {
        let now = self.now;
        let empty = self.donor_node().is_none_or(|node| node.pods == 0);
        let Some(donor) = self.machines.get_mut(&DONOR) else {
            return refused(ErrorClass::NotFound, "no such instance");
        };
        let wanted = if how == PowerDown::Deallocate { PowerState::Deallocated } else { PowerState::Stopped };
        if donor.power == wanted || donor.power == PowerState::Deallocated {
            return Ok(Some(self.begin(std::time::Duration::ZERO, Effect::Nothing, None)));
        }
        donor.power = PowerState::Stopping;
        if donor.up_since.take().is_some() {
            donor.down_since = Some(now);
        }
        self.require(empty, "the donor was stopped with pods on it");
        Ok(Some(self.begin(self.pace.power, Effect::Stopped(wanted), fails)))
    }

    fn start(&mut self, fails: Option<Failure>) -> Accepted {
        let Some(donor) = self.machines.get_mut(&DONOR) else {
            return refused(ErrorClass::NotFound, "no such instance");
        };
        match donor.power {
            PowerState::Running | PowerState::Starting => {
                Ok(Some(self.begin(std::time::Duration::ZERO, Effect::Nothing, None)))
            }
            PowerState::Stopping | PowerState::Deallocating => refused(ErrorClass::Busy, "409 OperationNotAllowed"),
            before => {
                donor.power = PowerState::Starting;
                Ok(Some(self.begin(self.pace.power, Effect::Started(before), fails)))
            }
        }
    }

    fn snapshot(&mut self, request: &SnapshotRequest, header: &Header, fails: Option<Failure>) -> OperationHandle {
        if self.snapshot.is_some() {
            return self.begin(std::time::Duration::ZERO, Effect::Nothing, None);
        }
        let off = |power| matches!(power, PowerState::Stopped | PowerState::Deallocated);
        let at_rest = self.donor().is_some_and(|donor| off(donor.power));
        let resets = header.donor.has_first_boot || self.donor_node().is_some_and(|node| node.first_boot);
        self.require(resets, "a disk was copied whose clones would use the donor's identity");
        self.snapshot_is_good = at_rest && resets;
        self.snapshot = Some(Snapshot {
            name: request.name.clone(),
            id: format!("/snapshots/{}", request.name),
            source: Some(request.disk.clone()),
            provisioning: Provisioning::InProgress("Creating".to_owned()),
            created: None,
            tags: request.tags.clone(),
        });
        self.begin(self.pace.snapshot, Effect::SnapshotMade, fails)
    }

    /// Freezes the donor, waits for the snapshot, and thaws it. A snapshot that takes longer than the freeze is not of frozen file systems.
    fn live_snapshot(&mut self, request: &SnapshotRequest, header: &Header, fails: Option<Failure>) -> Accepted {
        let Some(node) = self.donor_node() else { return refused(ErrorClass::NotFound, "no such node") };
        let (is_held, is_cordoned) = (node.autoscaler.is_some(), node.cordoned);
        let was_cordoned = node.hold.as_ref().is_some_and(|(_, cordoned, _)| *cordoned);
        self.require(is_held, "the donor was frozen while the autoscaler could remove it");
        self.require(is_cordoned == was_cordoned, "a donor that keeps running was cordoned");
        self.maybe_frozen = true;
        let failure = fails.clone();
        self.snapshot(request, header, fails);
        let in_time = self.pace.snapshot <= FREEZE_WINDOW;
        let end = if in_time { FreezeEnd::Requested } else { FreezeEnd::WindowOver };
        let frozen = self.pace.snapshot.min(FREEZE_WINDOW);
        self.sleep(frozen);
        let resets = header.donor.has_first_boot || self.donor_node().is_some_and(|node| node.first_boot);
        self.snapshot_is_good = in_time && resets;
        let frozen_ms = u64::try_from(frozen.as_millis()).unwrap();
        let freeze = FreezeReport { run: "r1".to_owned(), file_systems: vec!["/".to_owned()], frozen_ms, end };
        self.freeze = ThawReport { thawed: Vec::new(), freeze: Some(freeze) };
        self.maybe_frozen = false;
        match failure {
            Some(failure) => refused(failure.class, &failure.message),
            None => Ok(None),
        }
    }

    fn publish(&mut self, publication: &Publication, mut fails: Option<Failure>) -> Accepted {
        let number = publication.number.clone();
        if self.definition.is_none() {
            return refused(ErrorClass::NotFound, "ParentResourceNotFound");
        }
        if let Some(version) = self.versions.get(&number) {
            let finished = version.read.state == VersionState::Succeeded;
            self.require(!finished, "a version was written over another one");
            return refused(ErrorClass::Precondition, "409 Conflict");
        }
        if !self.snapshot.as_ref().is_some_and(|snapshot| snapshot.provisioning == Provisioning::Succeeded) {
            return refused(ErrorClass::Invalid, "the source does not exist");
        }
        self.require(publication.excluded, "a version was created included");
        if publication.storage == Storage::ZoneRedundant && !self.zones {
            let message = "storageAccountType is not supported in this region".to_owned();
            let code = "InvalidParameter".to_owned();
            fails = Some(Failure { code, message, class: ErrorClass::StorageUnsupported });
        }
        let region =
            RegionProgress { region: publication.location.clone(), excluded: false, percent: None, complete: false };
        let read = ImageVersion {
            number: number.clone(),
            id: format!("/versions/{number}"),
            state: VersionState::Creating,
            excluded: publication.excluded,
            regions: vec![region],
            storage: Some(publication.storage),
            tags: publication.tags.clone(),
            created: None,
        };
        let joins = self.snapshot_is_good && !self.bad_disk;
        self.versions.insert(number.clone(), Version { read, joins, tested: false });
        Ok(Some(self.begin(self.pace.publish, Effect::VersionMade(number), fails)))
    }

    fn delete_version(&mut self, number: &VersionNumber, fails: Option<Failure>) -> OperationHandle {
        let by_model = match &self.pool.recipe.image {
            ImageSource::Definition(_) => self.latest().is_some_and(|latest| latest.read.number == *number),
            ImageSource::ExactVersion(_, named) => named == number,
            _ => false,
        };
        let runs = |source: &ImageSource| matches!(source, ImageSource::ExactVersion(_, named) if named == number);
        let by_instance = self.machines.values().any(|machine| runs(&machine.runs));
        self.require(!by_model && !by_instance, format!("version {number} was deleted while it was in use"));
        if let Some(version) = self.versions.get_mut(number) {
            version.read.state = VersionState::Deleting;
        }
        self.begin(self.pace.write, Effect::VersionGone(number.clone()), fails)
    }
}

/// The name of the action's variant.
pub(crate) fn action_name(action: &Action) -> String {
    let text = format!("{action:?}");
    text.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default().to_owned()
}
