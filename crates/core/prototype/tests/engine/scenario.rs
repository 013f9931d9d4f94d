//! Initial states, and assertions about final states.

use std::collections::BTreeMap;

use kiln_prototype::names;
use kiln_prototype::run::{Donor, Header, RunOptions, Schema};
use kiln_types::tags::{BUILT_FROM_TAG, CLAIM_TAG, RECIPE_OF_IMAGE, RECIPE_TAG};
use kiln_types::{
    Architecture, CanaryName, DefinitionName, Extension, Generation, ImageDefinition, ImageFeatures, ImageSource,
    ImageVersion, JoinMode, MarketplaceImage, OperatingSystem, Orchestration, Pool, PowerState, Protection,
    Provisioning, Recipe, RegionProgress, SecurityType, Storage, Tags, ThawReport, UpgradeMode, VersionNumber,
    VersionState,
};

use crate::driver::{Driver, End};
use crate::fault::Faults;
use crate::world::{DONOR, Journal, Pace, Version, World};

pub(crate) const GROUP: &str = "kubernetes-westus2-17813";
pub(crate) const REGION: &str = "westus2";
pub(crate) const TODAY: &str = "2026.11.15";
pub(crate) const BEGIN: &str = "2026-11-15T22:00:00Z";

/// A kind of run.
#[derive(Debug, Clone)]
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    /// The pool already uses the image definition.
    pub(crate) second: bool,
    pub(crate) options: RunOptions,
    pub(crate) has_first_boot: bool,
    /// The donor is cordoned, annotated and protected before the run.
    pub(crate) held_before: bool,
}

impl Scenario {
    pub(crate) fn first() -> Self {
        let options = RunOptions::default();
        Self { name: "a first run", second: false, options, has_first_boot: false, held_before: false }
    }

    pub(crate) fn second() -> Self {
        Self { name: "a second run", second: true, has_first_boot: true, ..Self::first() }
    }

    /// All kinds of runs with different steps.
    pub(crate) fn all() -> Vec<Self> {
        let variant = |name, base: Self, change: fn(&mut RunOptions)| {
            let mut scenario = Self { name, ..base };
            change(&mut scenario.options);
            scenario
        };
        vec![
            Self::first(),
            Self::second(),
            variant("a first run with a pin", Self::first(), |options| options.pin = true),
            variant("a second run with a pin", Self::second(), |options| options.pin = true),
            variant("a run that deallocates", Self::first(), |options| options.deallocate = true),
            variant("a live run", Self::first(), |options| options.live = true),
            variant("a second live run", Self::second(), |options| options.live = true),
            variant("a run without a canary", Self::second(), |options| options.canary = false),
            variant("a run with new nodes", Self::second(), |options| options.new_nodes = 2),
            variant("a run whose clones run the recipe", Self::first(), |options| {
                options.join = Some(JoinMode::Recipe);
            }),
            Self { name: "a run with a donor that was held before", held_before: true, ..Self::first() },
        ]
    }

    /// The two most different kinds, for tests that repeat the run once per turn.
    pub(crate) fn few() -> Vec<Self> {
        Self::all()
            .into_iter()
            .filter(|scenario| ["a first run", "a run with new nodes"].contains(&scenario.name))
            .collect()
    }

    pub(crate) fn header(&self) -> Header {
        header(BEGIN, &self.options, self.has_first_boot)
    }

    pub(crate) fn world(&self) -> World {
        let definition_name = header(BEGIN, &self.options, true).definition.name;
        let now: jiff::Timestamp = BEGIN.parse().unwrap();
        let mut world = World {
            now,
            pace: Pace::USUAL,
            pool: pool(),
            etag: 1,
            bootstraps: true,
            needs_recipe: self.options.join == Some(JoinMode::Recipe),
            machines: BTreeMap::new(),
            nodes: BTreeMap::new(),
            gallery: None,
            definition: None,
            definition_name: definition_name.clone(),
            versions: BTreeMap::new(),
            snapshot: None,
            snapshot_is_good: false,
            maybe_frozen: false,
            freeze: ThawReport::default(),
            canary: None,
            operations: Vec::new(),
            saved: false,
            blockers: Vec::new(),
            zones: true,
            bad_disk: false,
            canary_registers: true,
            needs_canary: self.options.canary,
            created: Vec::new(),
            additions: 0,
            violations: Vec::new(),
            requests: 0,
            request_log: Vec::new(),
            acts: Vec::new(),
            journal: Journal::default(),
            lease: None,
            faults: Faults::default(),
        };
        world.touch();
        for id in 0..3 {
            let machine = crate::world::machine(id, world.pool.recipe.image.clone(), now);
            world.nodes.insert(machine.node.clone(), crate::world::node());
            world.machines.insert(id, machine);
        }
        if self.second {
            self.make_second(&mut world, &definition_name);
        }
        if self.held_before {
            world.machines.get_mut(&DONOR).unwrap().protection =
                Protection { from_scale_in: true, from_pool_actions: false };
            let node = world.nodes.get_mut(&crate::world::node_name(DONOR)).unwrap();
            (node.cordoned, node.autoscaler) = (true, Some("false".to_owned()));
        }
        world
    }

    /// Adds four earlier versions. The pool's instances run two of them.
    fn make_second(&self, world: &mut World, definition: &DefinitionName) {
        let header = self.header();
        world.gallery = Some(header.gallery);
        world.definition = Some(header.definition);
        world.saved = true;
        world.bootstraps = false;
        for written in ["2026.10.18", "2026.10.25", "2026.11.01", "2026.11.08"] {
            add_version(world, written, false, VersionState::Succeeded);
        }
        world.pool.recipe.extensions.retain(|extension| !extension.is_custom_script());
        world.pool.recipe.image = ImageSource::Definition(definition.clone());
        world.pool.tags.insert(RECIPE_TAG.to_owned(), RECIPE_OF_IMAGE.to_owned());
        let runs = |written: &str| ImageSource::ExactVersion(definition.clone(), number(written));
        world.machines.get_mut(&DONOR).unwrap().runs = runs("2026.11.08");
        world.machines.get_mut(&1).unwrap().runs = runs("2026.10.18");
        world.machines.get_mut(&2).unwrap().runs = runs("2026.11.08");
        world.touch();
    }

    /// Runs to the end. If the driver dies, another process resumes the run.
    pub(crate) fn run(&self, world: &mut World) -> End {
        let header = self.header();
        match Driver::open(world, "first", "r1", &header) {
            Ok(mut driver) => {
                let end = driver.drive(world);
                finish(world, end)
            }
            Err(end) => end,
        }
    }
}

/// Resumes a run as long as its drivers die.
pub(crate) fn finish(world: &mut World, mut end: End) -> End {
    for life in 0.. {
        if end != End::Died {
            return end;
        }
        // Wait until the lease of the dead process has expired.
        world.sleep(std::time::Duration::from_mins(1));
        end = match Driver::resume(world, &format!("other-machine-{life}")) {
            Ok(mut driver) => driver.drive(world),
            Err(lost) => lost,
        };
    }
    unreachable!("the loop has no end")
}

/// The final state, without times and random values.
pub(crate) fn end_state(world: &World) -> impl PartialEq + std::fmt::Debug + use<> {
    let versions: Vec<_> = world
        .versions
        .values()
        .map(|v| (v.read.number.to_string(), v.read.state.clone(), v.read.excluded, v.tested, v.read.tags.clone()))
        .collect();
    let donor = world.donor().map(|donor| (donor.power, donor.protection, world.is_ready(donor)));
    let node = world.donor_node().map(|node| (node.cordoned, node.autoscaler.clone(), node.hold.clone()));
    (
        (world.pool.recipe.clone(), world.pool.capacity, world.pool.tags.clone(), world.bootstraps),
        (versions, world.snapshot.is_some(), world.canary.is_some()),
        (donor, node),
        (world.saved, world.lease.clone(), world.additions),
    )
}

/// Asserts that all holds are released and the donor has its previous state.
pub(crate) fn assert_nothing_held(world: &World, scenario: &Scenario, context: &str) {
    let before = scenario.world();
    if let (Some(donor), Some(was)) = (world.donor(), before.donor()) {
        assert_eq!(donor.power, PowerState::Running, "{context}: the donor is off");
        assert!(!world.maybe_frozen, "{context}: nobody verified that the file systems are thawed");
        assert!(world.is_ready(donor), "{context}: the donor is not Ready");
        assert_eq!(donor.protection, was.protection, "{context}: protection");
        let (node, was) = (world.donor_node().unwrap(), before.donor_node().unwrap());
        assert_eq!(node.hold, None, "{context}: the hold record");
        assert_eq!((node.cordoned, &node.autoscaler), (was.cordoned, &was.autoscaler), "{context}: cordon, annotation");
    }
    assert!(world.canary.is_none(), "{context}: the canary still exists");
    let claimed = world.pool.tags.get(CLAIM_TAG).map_or("", String::as_str);
    assert_eq!(claimed, "", "{context}: the pool is still claimed");
    assert_eq!(world.lease, None, "{context}: the lease");
}

pub(crate) fn assert_invariants(world: &World, context: &str) {
    assert!(world.violations.is_empty(), "{context}: {:#?}\nacts: {:#?}", world.violations, world.acts);
}

pub(crate) fn add_version(world: &mut World, written: &str, excluded: bool, state: VersionState) {
    let complete = state == VersionState::Succeeded;
    let region = RegionProgress { region: REGION.to_owned(), excluded: false, percent: None, complete };
    let read = ImageVersion {
        number: number(written),
        id: format!("/versions/{written}"),
        state,
        excluded,
        regions: vec![region],
        storage: Some(Storage::ZoneRedundant),
        tags: Tags::from([(BUILT_FROM_TAG.to_owned(), crate::world::node_name(DONOR))]),
        created: None,
    };
    world.versions.insert(number(written), Version { read, joins: true, tested: !excluded });
}

pub(crate) fn number(written: &str) -> VersionNumber {
    written.parse().unwrap()
}

pub(crate) fn header(started: &str, options: &RunOptions, has_first_boot: bool) -> Header {
    let pool = pool();
    let started = started.parse().unwrap();
    let gallery = names::new_gallery(GROUP, REGION).unwrap();
    Header {
        schema: Schema,
        pool: pool.name.clone(),
        donor: Donor {
            node: crate::world::node_name(DONOR).parse().unwrap(),
            instance: DONOR.to_string().parse().unwrap(),
            vm_id: format!("vm-{DONOR}"),
            os_disk: format!("/disks/{DONOR}"),
            encryption_set: None,
            has_first_boot,
        },
        started,
        version: names::version_of_day(started),
        who: "op@example".to_owned(),
        options: options.clone(),
        join: options.join.unwrap_or_default(),
        replicas: 3,
        gallery_scope: None,
        gallery,
        definition: ImageDefinition {
            name: names::definition(GROUP, &pool.name).unwrap(),
            location: REGION.to_owned(),
            generation: Generation::V2,
            architecture: Architecture::X64,
            security_type: SecurityType::Standard,
            features: ImageFeatures::default(),
            identity: names::definition_identity(GROUP, &pool.name),
            plan: None,
            tags: Tags::new(),
        },
        snapshot: names::snapshot(&pool.name).unwrap(),
        keeps_custom_data: false,
        canary: CanaryName::from_run("r1").unwrap(),
        tags: Tags::from([(BUILT_FROM_TAG.to_owned(), crate::world::node_name(DONOR))]),
    }
}

fn pool() -> Pool {
    let script = Extension {
        name: "vmssCSE".to_owned(),
        publisher: "Microsoft.Azure.Extensions".to_owned(),
        kind: "CustomScript".to_owned(),
        ..Extension::default()
    };
    let billing = Extension {
        name: "k8s-billing".to_owned(),
        publisher: "Microsoft.AKS".to_owned(),
        kind: "Compute.AKS-Engine.Linux.Billing".to_owned(),
        ..Extension::default()
    };
    let market = MarketplaceImage {
        publisher: "microsoft-aks".to_owned(),
        offer: "aks".to_owned(),
        sku: "aks-engine-ubuntu-1804-202007".to_owned(),
        version: "2020.07.24".to_owned(),
    };
    Pool {
        name: "k8s-agentpool1-26100436-vmss".parse().unwrap(),
        location: REGION.to_owned(),
        zones: Vec::new(),
        size: "Standard_D2_v3".to_owned(),
        capacity: 3,
        revision: None,
        provisioning: Provisioning::Succeeded,
        tags: Tags::new(),
        upgrade_mode: UpgradeMode::Manual,
        automatic_os_upgrade: false,
        automatic_repairs: false,
        orchestration: Orchestration::Uniform,
        operating_system: OperatingSystem::Linux,
        ephemeral_os_disk: false,
        plan: None,
        security_type: SecurityType::Standard,
        nvme: None,
        recipe: Recipe { image: ImageSource::Marketplace(market), extensions: vec![script, billing] },
    }
}
