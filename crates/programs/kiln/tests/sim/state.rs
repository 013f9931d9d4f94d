//! Persistence of `kiln sim serve --state`.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex};

use reqwest::Method;
use serde_json::Value;
use testkit::SimProcess;

use crate::http::{Operator, isolated, metadata};
use crate::{folder, kiln, text};

fn serve(state: &Path) -> SimProcess {
    kiln().sim(&["--state", text(state), "--speed", "instant"])
}

fn group(sim: &SimProcess, name: &str) -> String {
    format!("/subscriptions/{}/resourcegroups/{name}?api-version=2022-09-01", sim.key("subscriptionId"))
}

#[tokio::test]
async fn acknowledged_writes_survive_sigkill() {
    let folder = folder();
    let state = folder.path().join("state");
    let mut sim = serve(&state);
    let first = Operator::roaming(&sim).await;
    let acknowledged = Arc::new(Mutex::new(Vec::new()));
    for round in 0..3 {
        let operator = first.at(&sim);
        let (subscription, done) = (sim.key("subscriptionId").to_owned(), Arc::clone(&acknowledged));
        let writer = tokio::spawn(async move {
            for number in 0.. {
                let name = format!("round-{round}-{number}");
                let path = format!("/subscriptions/{subscription}/resourcegroups/{name}?api-version=2022-09-01");
                match operator
                    .send(Method::PUT, &path, format!(r#"{{"location": "westus2", "tags": {{"n": "{number}"}}}}"#))
                    .await
                {
                    Ok(got) if got.status < 300 => done.lock().expect("no panic").push((name, number.to_string())),
                    Ok(got) => panic!("{} {}", got.status, got.text),
                    Err(_) => return,
                }
            }
        });
        while acknowledged.lock().expect("no panic").len() < (round + 1) * 25 {
            tokio::task::yield_now().await;
        }
        // In the middle of a write.
        sim.kill();
        writer.await.expect("the writer");
        sim = serve(&state);
        let again = first.at(&sim);
        let expected = acknowledged.lock().expect("no panic").clone();
        for (name, number) in expected {
            let got = again.get(&group(&sim, &name)).await;
            assert_eq!(
                (got.status, got.body["tags"]["n"].as_str()),
                (200, Some(number.as_str())),
                "{name}: {}",
                got.text
            );
        }
    }
}

#[test]
fn restart_keeps_vms_certificates_and_tokens() {
    isolated(async {
        let folder = folder();
        let mut sim = serve(folder.path());
        let operator = Operator::roaming(&sim).await;
        let path =
            "/vm/k8s-agentpool1-26100436-vmss000003/metadata/instance/compute/vmId?api-version=2021-02-01&format=text";
        let before = (metadata(&sim, "127.0.0.1", path).await.text, std::fs::read(sim.key("caFile")).expect("a file"));
        assert_eq!(sim.terminate().and_then(|status| status.code()), Some(0));
        let sim = serve(folder.path());
        assert_eq!(
            (metadata(&sim, "127.0.0.1", path).await.text, std::fs::read(sim.key("caFile")).expect("a file")),
            before
        );
        assert_eq!(operator.at(&sim).get("/subscriptions?api-version=2022-12-01").await.status, 200);
    });
}

#[test]
fn endpoint_file_exists_while_the_folder_is_served() {
    let folder = folder();
    let state = folder.path().join("deep/state");
    let mut sim = serve(&state);
    let file = state.join("endpoint.json");
    let written: Value = serde_json::from_slice(&std::fs::read(&file).expect("the file")).expect("JSON");
    assert_eq!(&written, sim.ready());
    assert_eq!(std::fs::metadata(&file).expect("the file").permissions().mode() & 0o777, 0o600);
    assert_eq!(sim.terminate().and_then(|status| status.code()), Some(0));
    assert!(!file.exists());
    assert!(state.join("world.json").exists() && state.join("world.log").exists());
}

#[test]
fn state_folder_rejects_another_world_file() {
    let folder = folder();
    let (state, world, other) =
        (folder.path().join("state"), folder.path().join("world.yaml"), folder.path().join("other.yaml"));
    std::fs::write(&world, "resourceGroup: mine\npools: []\n").expect("written");
    std::fs::write(&other, "resourceGroup: theirs\npools: []\n").expect("written");
    let serve = |more: &[&str]| {
        let arguments = [&["--state", text(&state)], more].concat();
        kiln().sim(&arguments).key("resourceGroup").to_owned()
    };
    assert_eq!(serve(&["--world", text(&world)]), "mine");
    assert_eq!(serve(&[]), "mine", "without a world file the folder's own state is used");
    assert_eq!(serve(&["--world", text(&world)]), "mine");
    let refused = kiln().run(&["sim", "serve", "--state", text(&state), "--world", text(&other)]);
    assert_eq!((refused.code, refused.stdout.as_str()), (Some(2), ""), "{refused}");
    assert!(refused.stderr.contains("other.yaml") && refused.stderr.contains("world.json"), "{refused}");
    assert_eq!(serve(&[]), "mine");
}

#[test]
fn state_folder_is_used_by_one_process() {
    let folder = folder();
    let state = folder.path().join("state");
    let mut first = serve(&state);
    let second = kiln().run(&["sim", "serve", "--state", text(&state)]);
    assert_eq!((second.code, second.stdout.as_str()), (Some(2), ""), "{second}");
    assert!(second.stderr.contains("world.log"), "{second}");
    assert!(state.join("endpoint.json").exists(), "the file of the first process is left unchanged");
    assert_eq!(first.terminate().and_then(|status| status.code()), Some(0));
}
