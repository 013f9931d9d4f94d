//! Runs the cases that boot a machine: folders of `tests/node` whose `run` starts with the line `booted`. The machine has kilnd, its units,
//! and a fake kubelet and containerd. The files of the case's `root/` are copied to its disk, and each line of `arguments` is an argument
//! of systemd-nspawn. Each further line of `run` is one step:
//!
//! ```text
//! media FILE [HOST]          attach provisioning media with this NodeConfig; `media preprovisioned`: placeholders; `media none`: detach
//! imds up | down | hangs     set the state of the metadata service
//! user-data FILE             set the user data that it returns
//! boot  reboot  off  cut     change the power state; `cut` does not shut down first
//! clone ID                   continue with another machine, powered off, with a copy of the disk
//! hurry N                    divide the timeouts of `kilnd boot` by N
//! put PATH FILE              copy a file of the case to the machine's disk
//! wait committed N           until generation N is committed
//! wait reverted N            until generation N was reverted
//! wait kubelet N             until kubelet has been started N times
//! wait active|failed UNIT    until a unit is in that state
//! wait polls N               until user data was requested N more times
//! wait requests N            until the metadata service received N requests
//! requests at most N         assert that it received no more than N
//! until COMMAND              wait until a shell command in the machine succeeds
//! in COMMAND                 run a shell command in the machine and print its output
//! settled                    wait until the boot has finished and print the system state
//! state                      print the generations that the node has recorded
//! ```
//!
//! `tests/node/booted.sh` defines functions for these commands. The steps and their output are compared with `expected/transcript`.

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
use super::document::{Document, ovf_env, placeholder};
use super::stage::{Stage, pods};

/// The default host name.
const HOST: &str = "node-1";

/// The state of a running case.
pub(crate) struct Runner {
    case: PathBuf,
    name: String,
    machine: Machine,
    imds: Service,
    library: String,
    printed: String,
}

/// The state of the metadata service.
enum Service {
    Down,
    Up(Cloud),
    /// Accepts connections and answers only when the case is over.
    Hangs(Server, #[expect(dead_code, reason = "dropped at the end")] Sender<()>),
}

impl Runner {
    /// Runs the steps of a case and returns the transcript.
    pub(crate) fn run(case: &Path, steps: &str) -> String {
        let name = case.file_name().expect("a name").to_string_lossy();
        // A host name has at most 64 characters, and testkit appends two numbers.
        let name: String = name.trim_start_matches("booted-").chars().take(30).collect();
        let name = name.trim_end_matches('-').to_owned();
        let machine = blueprint(case, &name).build();
        machine.hardware("dmi/product_uuid", ONE);
        put_tree(&case.join("root"), "", &machine);
        let library = fs::read_to_string(case.with_file_name("booted.sh")).expect("tests/node/booted.sh");
        let mut runner =
            Self { case: case.to_owned(), name, machine, imds: Service::Down, library, printed: String::new() };
        for line in steps.lines().skip(1).map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            _ = writeln!(runner.printed, "$ {line}");
            runner.step(line);
        }
        runner.printed
    }

    fn step(&mut self, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let rest = line.split_once(' ').map_or("", |(_, rest)| rest);
        match words[..] {
            ["media", "preprovisioned"] => self.machine.hardware("cd/ovf-env.xml", placeholder()),
            ["media", "none"] => self.machine.detach("cd"),
            ["media", file] => self.attach_media(file, HOST),
            ["media", file, host] => self.attach_media(file, host),
            ["imds", "up"] => self.imds = Service::Up(Cloud::start(&self.machine)),
            ["imds", "down"] => self.imds = Service::Down,
            ["imds", "hangs"] => self.imds = hanging(&self.machine),
            ["user-data", file] => self.cloud().set_user_data(&self.document(file)),
            ["boot"] => self.machine.boot(),
            ["reboot"] => self.machine.reboot(),
            ["off"] => self.machine.power_off(),
            ["cut"] => self.machine.cut_power(),
            ["clone", id] => {
                self.machine = blueprint(&self.case, &self.name).disk_of(&self.machine).build();
                self.machine.hardware("dmi/product_uuid", id);
            }
            ["hurry", times] => Stage::speed_up_boot(&self.machine, number(times)),
            ["put", path, file] => put(&self.case.join(file), path, &self.machine),
            ["wait", ..] => self.wait(&words[1..]),
            ["requests", "at", "most", times] => {
                let Service::Hangs(server, _) = &self.imds else { panic!("`{line}` needs `imds hangs`") };
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
            _ => panic!("unknown step `{line}`"),
        }
    }

    fn wait(&self, words: &[&str]) {
        let machine = &self.machine;
        match *words {
            ["committed", generation] => Stage::wait_committed(machine, number(generation)),
            ["reverted", generation] => {
                machine.wait_until(&format!("generation {generation} was reverted"), |machine| {
                    let state = load_state(machine)?;
                    let rejected =
                        numbers(&state["rejected"]).contains(&number(generation)) && state["trial"].is_null();
                    // The state is written before the revert is applied.
                    let link = machine.run(&["readlink", "/etc/kiln/current"]).stdout;
                    let is_linked =
                        state["committed"]["folder"].as_str().is_some_and(|folder| link.trim().ends_with(folder));
                    (rejected && is_linked).then_some(())
                });
            }
            ["kubelet", times] => drop(Stage::wait_for_kubelet(machine, number(times))),
            [state @ ("active" | "failed" | "inactive"), unit] => machine.wait_for(unit, state),
            ["polls", times] => {
                let wanted = self.cloud().user_data_requests() + number::<usize>(times);
                machine.wait_until("user data was requested", |_| {
                    (self.cloud().user_data_requests() >= wanted).then_some(())
                });
            }
            ["requests", times] => {
                let wanted: usize = number(times);
                machine.wait_until("the metadata service received the requests", |_| {
                    (self.cloud().requests() >= wanted).then_some(())
                });
            }
            _ => panic!("unknown condition `{}`", words.join(" ")),
        }
    }

    fn attach_media(&self, file: &str, host: &str) {
        self.machine.hardware("cd/ovf-env.xml", ovf_env(host, Some(&self.document(file))));
    }

    fn document(&self, file: &str) -> Document {
        let bytes = fs::read(self.case.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        Document::from_value(serde_json::from_slice(&bytes).unwrap_or_else(|error| panic!("{file}: {error}")))
    }

    fn cloud(&self) -> &Cloud {
        let Service::Up(cloud) = &self.imds else { panic!("the metadata service is not up") };
        cloud
    }

    /// Runs shell commands; returns their output and exit code.
    fn shell(&self, machine: &Machine, lines: &str) -> (String, Option<i32>) {
        let finished = machine.run(&["sh", "-euc", &format!("{}\n{lines}", self.library)]);
        (finished.stdout, finished.code)
    }
}

/// The machine of a case.
fn blueprint(case: &Path, name: &str) -> Blueprint {
    let arguments = fs::read_to_string(case.join("arguments")).unwrap_or_default();
    arguments.lines().fold(Stage::with_fakes(name), Blueprint::argument)
}

/// A metadata service that does not answer until it is dropped.
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

/// The recorded generations in one line.
fn state(machine: &Machine) -> String {
    let state = load_state(machine).unwrap_or_default();
    let generation = |value: &Value| value["number"].as_u64().map_or("none".to_owned(), |number| number.to_string());
    let rejected: Vec<String> = numbers(&state["rejected"]).iter().map(u64::to_string).collect();
    let boot = Stage::json(machine, "/run/kiln/boot.json");
    format!(
        "{} boot, committed {}, on trial {}, rejected {}, pods {}",
        boot["kind"].as_str().unwrap_or("no"),
        generation(&state["committed"]),
        generation(&state["trial"]["generation"]),
        if rejected.is_empty() { "none".to_owned() } else { rejected.join(" ") },
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
    word.parse().unwrap_or_else(|_| panic!("`{word}` is not a number"))
}

/// Copies a file of the case to a machine's disk, with its mode.
fn put(file: &Path, path: &str, machine: &Machine) {
    let mode = fs::metadata(file).unwrap_or_else(|error| panic!("{}: {error}", file.display())).permissions().mode();
    machine.write(path, &fs::read(file).expect("a file of the case"), mode & 0o777);
}

/// Copies a folder, if it exists, to a machine's disk.
fn put_tree(folder: &Path, path: &str, machine: &Machine) {
    for entry in fs::read_dir(folder).into_iter().flatten().map(|entry| entry.expect("an entry")) {
        let path = format!("{path}/{}", entry.file_name().to_string_lossy());
        if entry.path().is_dir() {
            put_tree(&entry.path(), &path, machine);
        } else {
            put(&entry.path(), &path, machine);
        }
    }
}
