//! Disks of qcow2 files with the real `qemu-img`: machines do not see each other's changes, and a snapshot stays the same byte for byte.

mod bench;

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use bench::Bench;
use kiln_local::{DiskPath, MachineKind, QemuImg};
use testkit::{TestDep, require};

const MIB: usize = 1 << 20;

/// The words that run a program of the QEMU root folder.
fn program(name: &str) -> Vec<OsString> {
    let qemu = require(TestDep::BenchTools);
    kiln_machines::tools::program(Some(qemu.ancestors().nth(3).unwrap()), name)
}

fn run(name: &str, arguments: &[&str]) {
    let words = program(name);
    let output = Command::new(&words[0]).args(&words[1..]).args(arguments).output().unwrap();
    assert!(output.status.success(), "{name} {arguments:?}\n{}", String::from_utf8_lossy(&output.stderr));
}

async fn disk(bench: &Bench, machine: &str) -> String {
    let DiskPath::Qcow2(path) = bench.disk(machine).await else { panic!("not a qcow2 file") };
    path.display().to_string()
}

/// Writes a byte to a range of a machine's disk, in KiB.
async fn write(bench: &Bench, machine: &str, byte: u8, at: u32, length: u32) {
    run("qemu-io", &["-f", "qcow2", "-c", &format!("write -P {byte} {at}k {length}k"), &disk(bench, machine).await]);
}

async fn bytes(bench: &Bench, machine: &str) -> Vec<u8> {
    let raw = bench.folder.path().join("seen.raw");
    let raw_text = raw.display().to_string();
    run("qemu-img", &["convert", "-f", "qcow2", "-O", "raw", &disk(bench, machine).await, &raw_text]);
    fs::read(&raw).unwrap()
}

async fn files(base: impl FnOnce(&std::path::Path) -> PathBuf) -> Bench {
    Bench::new(MachineKind::Qemu, QemuImg::new(program("qemu-img")), base).await
}

fn raw_base(folder: &std::path::Path) -> PathBuf {
    let base = folder.join("base.raw");
    fs::write(&base, vec![1; 4 * MIB]).unwrap();
    base
}

#[tokio::test]
async fn clone_has_the_donors_disk_and_neither_changes_the_other() {
    let bench = files(raw_base).await;
    write(&bench, "workers_0", 2, 0, 64).await;
    let donor = bytes(&bench, "workers_0").await;
    assert_eq!((donor[0], donor[64 << 10], donor.len()), (2, 1, 4 * MIB));
    bench.snapshot("workers_0", "c1").await;
    write(&bench, "workers_0", 3, 32, 64).await;
    let donor_later = bytes(&bench, "workers_0").await;
    bench.clone_of("c1", "1.0.0").await;
    assert_eq!(bytes(&bench, "workers_2").await, donor, "the clone differs from the snapshot");

    write(&bench, "workers_2", 4, 0, 1024).await;
    let clone = bytes(&bench, "workers_2").await;
    assert_eq!(bytes(&bench, "workers_0").await, donor_later);
    bench.snapshot("workers_2", "c2").await;
    bench.clone_of("c2", "1.0.1").await;
    assert_eq!(bytes(&bench, "workers_3").await, clone, "a clone of a clone");
    write(&bench, "workers_3", 5, 2048, 1024).await;
    assert_eq!(bytes(&bench, "workers_2").await, clone);
    assert_eq!(bytes(&bench, "workers_1").await, vec![1; 4 * MIB], "the base was changed");
}

#[tokio::test]
async fn joining_a_long_chain_keeps_the_base() {
    let bench = files(|folder| {
        let (raw, base) = (raw_base(folder), folder.join("base.qcow2"));
        run("qemu-img", &["convert", "-O", "qcow2", &raw.display().to_string(), &base.display().to_string()]);
        base
    })
    .await;
    for round in 0..18_u8 {
        write(&bench, "workers_0", round + 2, u32::from(round) * 32, 64).await;
        let name = format!("c{round}");
        bench.snapshot("workers_0", &name).await;
        bench.forget(&name).await;
    }
    let seen = bytes(&bench, "workers_0").await;
    let wanted: Vec<u8> = (0..4 * MIB)
        .map(|at| match at / (32 << 10) {
            block @ 0..18 => u8::try_from(block).unwrap() + 2,
            18 => 19,
            _ => 1,
        })
        .collect();
    assert!(seen == wanted, "the disk changed");
    let below = bench.below("workers_0").await;
    assert!(below < 10, "{below}");
    assert_eq!(bench.layers(), below + 2, "joined layers are left");
}
