//! Benchmark of rendering: renders per second and allocations per render, compared with a plain template engine that inserts finished
//! values into the same text. A preloaded C library counts allocations, because the workspace forbids unsafe code.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};

use kiln_aks_formats::shell::quote;
use kiln_bootstrap::render::{Target, render};
use kiln_bootstrap::{Document, Resolved, Source, resolve, sources};

const SETTINGS: &str = include_str!("../../../programs/kiln/tests/bootstrap/example/settings.yaml");
const POOL: &str = include_str!("../../../programs/kiln/tests/bootstrap/example/node-pool.yaml");
const CLASS: &str = include_str!("../../../programs/kiln/tests/bootstrap/example/node-class.yaml");

/// Enough for a stable result within two seconds on a slow machine.
const ROUNDS: u32 = 2_000;

fn read() -> Resolved {
    let document = |text: &str| Document::read("f", text).expect("YAML");
    let mut sources: Vec<Source> = vec![
        sources::settings(&document(SETTINGS)).expect("settings"),
        sources::node_pool(&document(POOL)).expect("a pool"),
    ];
    sources.extend(sources::node_class(&document(CLASS), "amd64").expect("a class"));
    resolve(&sources)
}

/// The plain engine: replaces `{{NAME}}` with the value, quoted for a shell.
fn fill(template: &str, values: &BTreeMap<String, String>) -> String {
    let mut out = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("{{") {
        let (name, after) = after.split_once("}}").expect("`}}` after a name");
        out.push_str(before);
        out.push_str(&quote(&values[name]));
        rest = after;
    }
    out.push_str(rest);
    out
}

/// Replaces each value in the script with its name.
fn template(script: &str, values: &BTreeMap<String, String>) -> String {
    values.iter().fold(script.to_owned(), |text, (name, value)| {
        text.replacen(&format!("\n{name}={}\n", quote(value)), &format!("\n{name}={{{{{name}}}}}\n"), 1)
    })
}

type Job = Box<dyn Fn() -> usize>;

/// The benchmarks by name.
fn jobs() -> Vec<(&'static str, Job)> {
    let inputs = read();
    let script = render(&inputs, Target::NbvScript).expect("a script").expose().to_owned();
    let values = inputs.variables().expect("variables").environment();
    let template = template(&script, &values);
    assert_eq!(fill(&template, &values), script, "both produce the same text");
    let target = |target: Target| -> Job {
        let inputs = inputs.clone();
        Box::new(move || render(&inputs, target).expect("rendered").expose().len())
    };
    vec![
        ("plain template, finished values", Box::new(move || fill(&template, &values).len())),
        ("script from resolved inputs", target(Target::NbvScript)),
        ("script from YAML", Box::new(|| render(&read(), Target::NbvScript).expect("rendered").expose().len())),
        ("NodeConfig from resolved inputs", target(Target::NodeConfig)),
        ("AKSNodeConfig from resolved inputs", target(Target::AksNodeConfig)),
        (
            "explanation of every field",
            Box::new({
                let inputs = inputs.clone();
                move || inputs.explain().len()
            }),
        ),
    ]
}

#[expect(clippy::disallowed_methods, reason = "a benchmark measures time")]
fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, flag, name, rounds] = &arguments[..]
        && flag == "--count"
    {
        let job = jobs().into_iter().find(|(known, _)| known == name).expect("a job").1;
        let rounds: u32 = rounds.parse().expect("a number");
        std::hint::black_box((0..rounds).map(|_| job()).sum::<usize>());
        return;
    }
    let counter = counter();
    println!("{:<36} {:>10} {:>8} {:>12} {:>8}", "", "per second", "ratio", "allocations", "ratio");
    let mut base = None;
    for (name, job) in jobs() {
        for _ in 0..ROUNDS / 10 {
            std::hint::black_box(job());
        }
        let began = std::time::Instant::now();
        for _ in 0..ROUNDS {
            std::hint::black_box(job());
        }
        let each = began.elapsed().as_secs_f64() / f64::from(ROUNDS);
        let allocations = counter.as_ref().map(|library| allocations(library, name));
        let (first, fewest) = *base.get_or_insert((each, allocations));
        let ratio = allocations.zip(fewest).map_or("-".to_owned(), |(many, few)| format!("{:.1}", many / few));
        let many = allocations.map_or("-".to_owned(), |many| format!("{many:.0}"));
        println!("{name:<36} {:>10.0} {:>8.1} {many:>12} {ratio:>8}", 1.0 / each, each / first);
    }
}

/// Builds the counting library, if a C compiler is installed.
fn counter() -> Option<tempfile::TempPath> {
    let library = tempfile::Builder::new().suffix(".so").tempfile().expect("a file").into_temp_path();
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/allocations.c");
    let built = Command::new("cc").args(["-O2", "-shared", "-fPIC", "-o"]).arg(&library).arg(source).status();
    built.is_ok_and(|status| status.success()).then_some(library)
}

/// Allocations per round, from the difference of two runs, so that start-up is not counted.
fn allocations(library: &std::path::Path, name: &str) -> f64 {
    let count = |rounds: u32| -> f64 {
        let program = std::env::current_exe().expect("a program");
        let output = Command::new(program)
            .args(["--count", name, &rounds.to_string()])
            .env("LD_PRELOAD", library)
            .stdout(Stdio::null())
            .output()
            .expect("the benchmark runs");
        let stderr = String::from_utf8_lossy(&output.stderr);
        stderr.trim().lines().last().and_then(|line| line.parse().ok()).expect("a number")
    };
    (count(30) - count(10)) / 20.0
}
