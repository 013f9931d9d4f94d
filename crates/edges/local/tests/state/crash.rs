//! Every verb killed before each of its changes, and asked for again by another process: it ends where it would have ended.

use std::collections::BTreeMap;
use std::fs;
use std::pin::Pin;

use kiln_local::{Error, Local};
use kiln_types::{Factory, ImageSource, Machines, OWNER_TAG, PowerDown, Protection, RecipeChange, Secret, Tags};

use crate::support::{
    Remembered, World, canary, files_on, gallery, id, image_definition, line, machine_name, machine_spec, pool,
    pool_spec, publication, snapshot_request,
};

type Done<'a> = Pin<Box<dyn Future<Output = Result<(), Error>> + Send + 'a>>;
type Verb = for<'a> fn(&'a Local<Remembered>) -> Done<'a>;

/// The life of a pool and a machine. As the engine does, a verb that may not be repeated blindly looks first.
const LIFE: [(&str, Verb); 23] = [
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
            l.set_protection(&pool(), &seen, Protection::FULL).await.map(drop)
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
    ("create line", |l| Box::pin(async { l.create_definition(&image_definition()).await.map(drop) })),
    ("publish", |l| Box::pin(async { l.publish(&publication("c1", "1.0.0")).await.map(drop) })),
    ("delete snapshot", |l| Box::pin(async { l.delete_snapshot(&"c1".parse().unwrap()).await.map(drop) })),
    ("try one", |l| Box::pin(async { l.create_canary(&canary("1.0.0")).await.map(drop) })),
    ("tag line", |l| {
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

/// What can be seen of a world, with what is made anew at random left out.
async fn seen(world: &World) -> BTreeMap<String, String> {
    let local = world.process();
    let mut seen = BTreeMap::new();
    for pool in local.pools().await.unwrap() {
        for instance in local.instances(&pool.name).await.unwrap() {
            let name = format!("instance {}", instance.node_name);
            let instance = kiln_types::Instance { vm_id: String::new(), ..instance };
            seen.insert(name, format!("{instance:?}"));
        }
        seen.insert(format!("pool {}", pool.name), format!("{pool:?}"));
    }
    for machine in local.machines().await.unwrap() {
        let files = files_on(&local.body(&machine.name).await.unwrap().disk);
        let disk: Vec<&String> = files.keys().collect();
        let told = (machine.number, machine.wanted_on, machine.layers, disk);
        seen.insert(format!("machine {}", machine.name), format!("{told:?}"));
    }
    for version in local.versions(&line()).await.unwrap() {
        seen.insert(format!("version {}", version.number), format!("{version:?}"));
    }
    for folder in fs::read_dir(world.state()).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()) {
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        let names = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        // Locks are made by who comes; a layer's name is random.
        let told = match name.as_str() {
            "locks" => String::new(),
            "layers" => names.count().to_string(),
            _ => format!("{:?}", names.collect::<std::collections::BTreeSet<_>>()),
        };
        seen.insert(format!("folder {name}"), told);
    }
    seen.insert("on".to_owned(), format!("{:?}", world.power.on()));
    seen
}

/// Layers that a killed process left go with the next sweep, of whatever verb it is.
async fn sweep(world: &World) {
    world.process().delete_snapshot(&"none".parse().unwrap()).await.unwrap();
}

#[tokio::test]
async fn a_verb_that_was_killed_anywhere_and_asked_for_again_ends_where_it_would_have() {
    let mut world = World::new();
    world.process().import_image("debian", kiln_local::Kind::Nspawn, &world.base()).await.unwrap();
    let mut stops = 0;
    for (name, verb) in LIFE {
        let after = world.copy();
        let local = after.process();
        verb(&local).await.unwrap_or_else(|error| panic!("{name}: {error}"));
        let changes = local.store().changes();
        let wanted = seen(&after).await;

        verb(&after.process()).await.unwrap_or_else(|error| panic!("{name}, again: {error}"));
        assert_eq!(seen(&after).await, wanted, "{name}, asked for twice");

        for at in 0..changes {
            let killed = world.copy();
            let local = killed.process();
            local.store().stop_before(Some(at));
            // What completes while it looks swallows the end, and does no more either.
            let _ = verb(&local).await;
            assert_eq!(local.store().changes(), at, "{name}");
            verb(&killed.process()).await.unwrap_or_else(|error| panic!("{name}, killed at {at}: {error}"));
            sweep(&killed).await;
            let ended = seen(&killed).await;
            assert_eq!(ended, wanted, "{name}, killed at {at}");
            stops += 1;
        }
        world = after;
    }
    assert!(stops > 100, "{stops}");
    assert_eq!(seen(&world).await["folder layers"], "0");
    println!("{stops} stops in {} verbs", LIFE.len());
}
