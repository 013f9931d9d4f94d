//! Every operation, killed before each of its changes and repeated by another process, has the same result as without the kill.

use std::collections::BTreeMap;
use std::fs;
use std::pin::Pin;

use kiln_local::{Error, Local};
use kiln_types::{Factory, ImageSource, Machines, OWNER_TAG, PowerDown, Protection, RecipeChange, Secret, Tags};

use crate::support::{
    FakeRunner, Setup, canary, files_on, gallery, id, image_definition, line, machine_name, machine_spec, pool,
    pool_spec, publication, snapshot_request,
};

type Running<'a> = Pin<Box<dyn Future<Output = Result<(), Error>> + Send + 'a>>;
type Operation = for<'a> fn(&'a Local<FakeRunner>) -> Running<'a>;

/// The life of a pool and a machine. Like the engine, operations that must not be repeated blindly read the state first.
const LIFE: [(&str, Operation); 23] = [
    ("create pool", |l| Box::pin(async { l.create_pool(&pool_spec(2)).await })),
    ("tag pool", |l| {
        Box::pin(async {
            let read = l.describe_pool(&pool()).await?;
            let tags = Tags::from([("run".to_owned(), "r1".to_owned())]);
            if read.tags != tags {
                l.tag_pool(&read, &tags).await?;
            }
            Ok(())
        })
    }),
    ("protect", |l| {
        Box::pin(async {
            let seen = l.describe_instance(&pool(), &id(0)).await?;
            l.set_protection(&pool(), &seen, Protection::FULL).await
        })
    }),
    ("power off", |l| Box::pin(async { l.power_off(&pool(), &id(0), PowerDown::KeepHardware).await.map(drop) })),
    ("snapshot", |l| {
        Box::pin(async {
            let donor = l.describe_instance(&pool(), &id(0)).await?;
            l.snapshot_os_disk(&snapshot_request("c1", &donor)).await.map(drop)
        })
    }),
    ("start", |l| Box::pin(async { l.start(&pool(), &id(0)).await.map(drop) })),
    ("create gallery", |l| Box::pin(async { l.create_gallery(&gallery()).await.map(drop) })),
    ("create definition", |l| Box::pin(async { l.create_definition(&image_definition()).await.map(drop) })),
    ("publish", |l| Box::pin(async { l.publish(&publication("c1", "1.0.0")).await.map(drop) })),
    ("delete snapshot", |l| Box::pin(async { l.delete_snapshot(&"c1".parse().unwrap()).await.map(drop) })),
    ("create canary", |l| Box::pin(async { l.create_canary(&canary("1.0.0")).await.map(drop) })),
    ("tag definition", |l| {
        Box::pin(async {
            l.tag_definition(&image_definition(), &Tags::from([("k".into(), "v".into())])).await.map(drop)
        })
    }),
    ("delete canary", |l| Box::pin(async { l.delete_canary(&canary("1.0.0").name).await.map(drop) })),
    ("include", |l| Box::pin(async { l.set_excluded(&line(), &"1.0.0".parse().unwrap(), false).await.map(drop) })),
    ("set recipe", |l| {
        Box::pin(async {
            let read = l.describe_pool(&pool()).await?;
            let image = Some(ImageSource::Definition(line()));
            let change = RecipeChange { image, custom_data: Some(Secret::new("#cloud-config\n")) };
            l.set_recipe(&pool(), &change, &read.revision.unwrap()).await.map(drop)
        })
    }),
    ("add instances", |l| {
        Box::pin(async {
            let read = l.describe_pool(&pool()).await?;
            if read.capacity < 4 {
                l.add_instances(&read, 2).await?;
            }
            Ok(())
        })
    }),
    ("remove instances", |l| Box::pin(async { l.remove_instances(&pool(), &[id(0), id(2)]).await.map(drop) })),
    ("launch", |l| Box::pin(async { l.create(&machine_spec("m1", "/local/images/debian", "alice")).await.map(drop) })),
    ("confirm", |l| Box::pin(async { l.confirm(&machine_name("m1")).await })),
    ("collect", |l| {
        Box::pin(async {
            for machine in l.list(OWNER_TAG, "alice").await? {
                l.collect(&machine, OWNER_TAG, "alice").await?;
            }
            Ok(())
        })
    }),
    ("delete version", |l| Box::pin(async { l.delete_version(&line(), &"1.0.0".parse().unwrap()).await.map(drop) })),
    ("delete machine", |l| Box::pin(async { l.delete(&machine_name("m1")).await })),
    ("delete pool", |l| Box::pin(async { l.delete_pool(&pool()).await })),
];

/// The observable state of a factory, without random values.
async fn observe(setup: &Setup) -> BTreeMap<String, String> {
    let local = setup.process();
    let mut state = BTreeMap::new();
    for pool in local.pools().await.unwrap() {
        for instance in local.instances(&pool.name).await.unwrap() {
            let name = format!("instance {}", instance.node_name);
            let instance = kiln_types::Instance { vm_id: String::new(), ..instance };
            state.insert(name, format!("{instance:?}"));
        }
        state.insert(format!("pool {}", pool.name), format!("{pool:?}"));
    }
    for machine in local.machines().await.unwrap() {
        let files = files_on(&local.machine_config(&machine.name).await.unwrap().disk);
        let disk: Vec<&String> = files.keys().collect();
        let summary = (machine.number, machine.wanted_on, machine.layers, disk);
        state.insert(format!("machine {}", machine.name), format!("{summary:?}"));
    }
    for version in local.versions(&line()).await.unwrap() {
        state.insert(format!("version {}", version.number), format!("{version:?}"));
    }
    for folder in fs::read_dir(setup.state()).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()) {
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        let names = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        // Locks are created on demand; the names of layers are random.
        let content = match name.as_str() {
            "locks" => String::new(),
            "layers" => names.count().to_string(),
            _ => format!("{:?}", names.collect::<std::collections::BTreeSet<_>>()),
        };
        state.insert(format!("folder {name}"), content);
    }
    state.insert("on".to_owned(), format!("{:?}", setup.runner.on()));
    state
}

/// Removes the layers that a killed process left, as the next operation would.
async fn sweep(setup: &Setup) {
    setup.process().delete_snapshot(&"none".parse().unwrap()).await.unwrap();
}

#[tokio::test]
async fn operation_killed_at_any_change_and_repeated_has_the_same_result() {
    let mut setup = Setup::new();
    setup.process().import_image("debian", kiln_local::MachineKind::Nspawn, &setup.base()).await.unwrap();
    let mut stops = 0;
    for (name, operation) in LIFE {
        let after = setup.copy();
        let local = after.process();
        operation(&local).await.unwrap_or_else(|error| panic!("{name}: {error}"));
        let changes = local.store().changes();
        let wanted = observe(&after).await;

        operation(&after.process()).await.unwrap_or_else(|error| panic!("{name}, again: {error}"));
        assert_eq!(observe(&after).await, wanted, "{name}, repeated");

        for at in 0..changes {
            let killed = setup.copy();
            let local = killed.process();
            local.store().stop_before(Some(at));
            // A read that completes another operation ignores its failure; it makes no change either.
            let _ = operation(&local).await;
            assert_eq!(local.store().changes(), at, "{name}");
            operation(&killed.process()).await.unwrap_or_else(|error| panic!("{name}, killed at {at}: {error}"));
            sweep(&killed).await;
            let ended = observe(&killed).await;
            assert_eq!(ended, wanted, "{name}, killed at {at}");
            stops += 1;
        }
        setup = after;
    }
    assert!(stops > 100, "{stops}");
    assert_eq!(observe(&setup).await["folder layers"], "0");
    println!("{stops} stops in {} operations", LIFE.len());
}
