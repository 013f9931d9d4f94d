//! The steps of a case that boots: a folder of `tests/node` whose `run` begins with the line `booted`. It has a machine with kilnd, its
//! units, and stand-ins for kubelet and containerd; files of the case's `root/` are on its disk, and lines of its `arguments` are for
//! systemd-nspawn. A step per line:
//!
//! ```text
//! medium FILE [HOST]         the provisioning medium holds this document; `medium ahead` none yet, `medium gone` takes it away
//! imds up | down | hangs     the metadata service of the machine's cloud
//! user-data FILE             what it answers from now on
//! boot  reboot  off  cut     power; `cut` takes it away
//! clone ID                   goes on with another machine that has a copy of the disk, and is off
//! hurry N                    `kilnd boot` waits N times shorter
//! put PATH FILE              a file of the case on the machine's disk
//! wait committed N           until generation N was seen healthy
//! wait returned N            until generation N came back
//! wait kubelet N             until kubelet was started N times
//! wait active|failed UNIT    until a unit is in that state
//! wait asked N               until user data was asked for N times more
//! wait requests N            until the cloud was asked for anything N times
//! requests at most N         the cloud was not asked more often
//! until COMMAND              until lines of shell in the machine succeed
//! in COMMAND                 runs lines of shell in the machine, and prints what they print
//! settled                    waits until the boot is over, and prints how it ended
//! state                      prints what the node remembers
//! ```
//!
//! `tests/node/booted.sh` has functions for what runs in the machine. Steps and what they print are compared with `expected/transcript`.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::mpsc::{Sender, channel};

use serde_json::Value;
use testkit::nspawn::{Blueprint, Machine, Response, Server};

use super::ONE;
use super::cloud::Cloud;
use super::document::{Document, medium, placeholder};
use super::stage::{Stage, pods};

/// The name that a machine gets where a case does not say.
const HOST: &str = "node-1";

/// A case that runs.
pub(crate) struct Play {
    case: PathBuf,
    name: String,
    machine: Machine,
    imds: Service,
    library: String,
    printed: String,
}

/// The metadata service.
enum Service {
    Down,
    Up(Cloud),
    /// Whoever asks waits until the case is over.
    Hangs(Server, #[expect(dead_code, reason = "dropped at the end")] Sender<()>),
}

impl Play {
    /// Runs the steps of a case, and gives what they printed.
    pub(crate) fn run(case: &Path, steps: &str) -> String {
        let name = case.file_name().expect("a name").to_string_lossy();
        // A machine's name is a host's, of at most 64 letters, and gets two numbers.
        let name: String = name.trim_start_matches("booted-").chars().take(30).collect();
        let name = name.trim_end_matches('-').to_owned();
        let machine = blueprint(case, &name).build();
        machine.hardware("dmi/product_uuid", ONE);
        place(&case.join("root"), "", &machine);
        let library = fs::read_to_string(case.with_file_name("booted.sh")).expect("tests/node/booted.sh");
        let mut play =
            Self { case: case.to_owned(), name, machine, imds: Service::Down, library, printed: String::new() };
        for line in steps.lines().skip(1).map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            _ = writeln!(play.printed, "$ {line}");
            play.step(line);
        }
        play.printed
    }

    fn step(&mut self, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let rest = line.split_once(' ').map_or("", |(_, rest)| rest);
        match words[..] {
            ["medium", "ahead"] => self.machine.hardware("cd/ovf-env.xml", placeholder()),
            ["medium", "gone"] => self.machine.detach("cd"),
            ["medium", file] => self.medium(file, HOST),
            ["medium", file, host] => self.medium(file, host),
            ["imds", "up"] => self.imds = Service::Up(Cloud::of(&self.machine)),
            ["imds", "down"] => self.imds = Service::Down,
            ["imds", "hangs"] => self.imds = hanging(&self.machine),
            ["user-data", file] => self.cloud().set(&self.document(file)),
            ["boot"] => self.machine.boot(),
            ["reboot"] => self.machine.reboot(),
            ["off"] => self.machine.power_off(),
            ["cut"] => self.machine.cut_power(),
            ["clone", id] => {
                self.machine = blueprint(&self.case, &self.name).disk_of(&self.machine).build();
                self.machine.hardware("dmi/product_uuid", id);
            }
            ["hurry", times] => Stage::hurry(&self.machine, number(times)),
            ["put", path, file] => put(&self.case.join(file), path, &self.machine),
            ["wait", ..] => self.wait(&words[1..]),
            ["requests", "at", "most", times] => {
                let Service::Hangs(server, _) = &self.imds else { panic!("`{line}`: no service hangs") };
                assert!(server.seen().len() <= number(times), "{:?}", server.seen());
            }
            ["until", ..] => {
                let done = |machine: &Machine| (self.shell(machine, rest).1 == Some(0)).then_some(());
                self.machine.wait_until(rest, done);
            }
            ["in", ..] => {
                let (printed, code) = self.shell(&self.machine, rest);
                self.printed.push_str(&printed);
                if code != Some(0) {
                    _ = writeln!(self.printed, "[{}]", code.map_or("signal".to_owned(), |code| code.to_string()));
                }
            }
            ["settled"] => _ = writeln!(self.printed, "{}", self.machine.settled()),
            ["state"] => _ = writeln!(self.printed, "{}", state(&self.machine)),
            _ => panic!("`{line}` is no step"),
        }
    }

    fn wait(&self, words: &[&str]) {
        let machine = &self.machine;
        match *words {
            ["committed", generation] => Stage::wait_committed(machine, number(generation)),
            ["returned", generation] => machine.wait_until(&format!("generation {generation} came back"), |machine| {
                let state = load_state(machine)?;
                let refused = numbers(&state["refused"]).contains(&number(generation)) && state["trial"].is_null();
                // The state is written ahead of the way.
                let link = machine.run(&["readlink", "/etc/kiln/current"]).stdout;
                let there = state["committed"]["folder"].as_str().is_some_and(|folder| link.trim().ends_with(folder));
                (refused && there).then_some(())
            }),
            ["kubelet", times] => drop(Stage::wait_for_kubelet(machine, number(times))),
            [state @ ("active" | "failed" | "inactive"), unit] => machine.wait_for(unit, state),
            ["asked", times] => {
                let wanted = self.cloud().asked() + number::<usize>(times);
                machine.wait_until("user data was asked for", |_| (self.cloud().asked() >= wanted).then_some(()));
            }
            ["requests", times] => {
                let wanted: usize = number(times);
                machine.wait_until("the cloud was asked", |_| (self.cloud().requests() >= wanted).then_some(()));
            }
            _ => panic!("nobody can wait for `{}`", words.join(" ")),
        }
    }

    fn medium(&self, file: &str, host: &str) {
        self.machine.hardware("cd/ovf-env.xml", medium(host, Some(&self.document(file))));
    }

    fn document(&self, file: &str) -> Document {
        let bytes = fs::read(self.case.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        Document::of(serde_json::from_slice(&bytes).unwrap_or_else(|error| panic!("{file}: {error}")))
    }

    fn cloud(&self) -> &Cloud {
        let Service::Up(cloud) = &self.imds else { panic!("the metadata service is not up") };
        cloud
    }

    /// What lines of shell print, and how they end.
    fn shell(&self, machine: &Machine, lines: &str) -> (String, Option<i32>) {
        let finished = machine.run(&["sh", "-euc", &format!("{}\n{lines}", self.library)]);
        (finished.stdout, finished.code)
    }
}

/// The machine of a case.
fn blueprint(case: &Path, name: &str) -> Blueprint {
    let arguments = fs::read_to_string(case.join("arguments")).unwrap_or_default();
    arguments.lines().fold(Stage::with_stand_ins(name), Blueprint::argument)
}

/// A service that answers nobody until it is dropped.
fn hanging(machine: &Machine) -> Service {
    let (end, ended) = channel::<()>();
    let ended = Mutex::new(ended);
    let listener = machine.network().listen(([169, 254, 169, 254], 80).into());
    let server = Server::start(listener, move |_| {
        let _ = ended.lock().map(|ended| ended.recv());
        Response::status(503)
    });
    Service::Hangs(server, end)
}

/// What the node remembers, in one line.
fn state(machine: &Machine) -> String {
    let state = load_state(machine).unwrap_or_default();
    let generation = |place: &Value| place["number"].as_u64().map_or("none".to_owned(), |number| number.to_string());
    let refused: Vec<String> = numbers(&state["refused"]).iter().map(u64::to_string).collect();
    let boot = Stage::json(machine, "/run/kiln/boot.json");
    format!(
        "{} boot, committed {}, on trial {}, refused {}, pods {}",
        boot["kind"].as_str().unwrap_or("no"),
        generation(&state["committed"]),
        generation(&state["trial"]["generation"]),
        if refused.is_empty() { "none".to_owned() } else { refused.join(" ") },
        pods(machine).map_or("not set".to_owned(), |pods| pods.to_string()),
    )
}

fn load_state(machine: &Machine) -> Option<Value> {
    serde_json::from_str(&machine.read("/var/lib/kiln/state.json")?).ok()
}

fn numbers(list: &Value) -> Vec<u64> {
    list.as_array().into_iter().flatten().filter_map(|entry| entry["number"].as_u64()).collect()
}

fn number<T: std::str::FromStr>(word: &str) -> T {
    word.parse().unwrap_or_else(|_| panic!("`{word}` is no number"))
}

/// Puts a file of the case on a machine's disk, with its mode.
fn put(file: &Path, path: &str, machine: &Machine) {
    let mode = fs::metadata(file).unwrap_or_else(|error| panic!("{}: {error}", file.display())).permissions().mode();
    machine.write(path, &fs::read(file).expect("a file of the case"), mode & 0o777);
}

/// Puts everything below a folder on a machine's disk. Without the folder there is nothing.
fn place(folder: &Path, path: &str, machine: &Machine) {
    for entry in fs::read_dir(folder).into_iter().flatten().map(|entry| entry.expect("an entry")) {
        let path = format!("{path}/{}", entry.file_name().to_string_lossy());
        if entry.path().is_dir() {
            place(&entry.path(), &path, machine);
        } else {
            put(&entry.path(), &path, machine);
        }
    }
}
