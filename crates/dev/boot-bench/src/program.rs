//! `cargo xtask boot-bench`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use packaging::{Architecture, Program, build};
use test_deps::Part;

use crate::boot::{Disk, Machine};
use crate::container::start_all;
use crate::expected::Configured;
use crate::node::{measure, table};
use crate::picture::bars;
use crate::report::{Report, Row};
use crate::rootfs::Bench;
use crate::world::{Tools, finished, folder, metadata, shown};
use crate::{Clock, Error, Variant};

/// What `--help` prints.
pub const HELP: &str = "\
Boots the same machine in different ways, in QEMU, and measures what comes before its kubelet (needs root); counts what kilnd costs.

usage: cargo xtask bench node
       cargo xtask boot-bench [--variant NAME]… [--nspawn] [--runs N] [--icount] [--kilnd FILE] [--no-pictures] [--output text|json] [--work DIR]

  --variant NAME  floor | kilnd | again | clone | kilnd-imds | wait-for-network | cloud-init; all of these without it
                  disks: swap and a root that grows, proven and not compared
  --nspawn        floor, kilnd and cloud-init in nspawn too; alone where no variant is named. Without either, everything
  --runs N        boots of each, in turns; 1 without it
  --icount        time passes by instructions: other work on this machine does not show
  --kilnd FILE    take this static program instead of compiling one
  --no-pictures   no chains and pictures of the boots: nothing is compiled for them
  --work DIR      where disks, captures and pictures go; target/boot-bench without it

Exit codes: 0 every budget that could be judged holds, 1 one is over or there is no measurement, 2 usage.
";

/// What was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Which variants.
    pub variants: Vec<Variant>,
    /// Whether those of nspawn are started too.
    pub nspawn: bool,
    /// How often each.
    pub runs: usize,
    /// How time passes.
    pub clock: Clock,
    /// The program that is measured; compiled without it.
    pub kilnd: Option<PathBuf>,
    /// Whether chains and pictures are made afterwards.
    pub pictures: bool,
    /// For programs.
    pub json: bool,
    /// Where everything goes.
    pub work: PathBuf,
}

/// Reads the words after `boot`; the error is for the user.
pub fn parse(root: &Path, words: &[String]) -> Result<Asked, String> {
    let mut asked = Asked {
        variants: Vec::new(),
        nspawn: false,
        runs: 1,
        clock: Clock::Wall,
        kilnd: None,
        pictures: true,
        json: false,
        work: root.join("target/boot-bench"),
    };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().map(String::as_str).ok_or(format!("`{word}` needs a value"));
        match word.as_str() {
            "--no-pictures" => asked.pictures = false,
            "--nspawn" => asked.nspawn = true,
            "--icount" => asked.clock = Clock::Instructions,
            "--variant" => {
                let name = value()?;
                asked.variants.push(Variant::named(name).ok_or(format!("there is no variant `{name}`"))?);
            }
            "--runs" => {
                let runs = value()?.parse().ok().filter(|runs| *runs > 0);
                asked.runs = runs.ok_or("`--runs` takes a number from 1")?;
            }
            "--output" => {
                asked.json = match value()? {
                    "json" => true,
                    "text" => false,
                    other => return Err(format!("`--output` is `text` or `json`, not `{other}`")),
                }
            }
            "--kilnd" => asked.kilnd = Some(value()?.into()),
            // Machines see the folder from elsewhere.
            "--work" => asked.work = std::path::absolute(value()?).map_err(|error| format!("`--work`: {error}"))?,
            _ => return Err(format!("unknown argument `{word}`")),
        }
    }
    if asked.variants.is_empty() && !asked.nspawn {
        asked.nspawn = true;
        asked.variants = Variant::measured();
    }
    Ok(asked)
}

/// Does it. Must run in namespaces of its own (mounts, processes, network): everything that it mounts and starts ends with them.
pub fn run(root: &Path, asked: &Asked) -> Result<Report, Error> {
    let cache = test_deps::Cache::of_user().map_err(|error| Error::Part(error.to_string()))?;
    let part = |part: Part| match cache.find(part) {
        Ok(_) => Ok(cache.folder(part).join("root")),
        Err(error) => Err(Error::Part(error.to_string())),
    };
    let (tools_root, base) = (part(Part::BenchTools)?, part(Part::BenchRoot)?);
    folder(&asked.work)?;
    let kilnd = if let Some(given) = &asked.kilnd {
        given.clone()
    } else {
        let architecture = Architecture::of_rust(std::env::consts::ARCH)?;
        build(root, Program::Kilnd, Program::Kilnd.profile(), architecture)?.path
    };
    packaging::refuse_dynamic(&kilnd)?;
    let tools = Tools::enter(&tools_root, &asked.work)?;
    let _metadata = metadata(&base)?;
    kernel(&base, &asked.work)?;
    let units = root.join("units");
    let bench = Bench { tools: &tools, base: &base, work: &asked.work, kilnd: &kilnd, units: &units };
    let expected = bench.expected()?;
    let mut machines = Machines { bench: &bench, asked, expected: &expected, donor: None };
    let mut rows = Vec::new();
    for &variant in &asked.variants {
        let (disk, medium) = (machines.disk(variant)?, bench.medium(variant)?);
        rows.push((disk, medium, Row { variant, boots: Vec::new() }));
    }
    // In turns: what drifts on this machine drifts for all of them.
    for number in 1..=asked.runs {
        for (disk, medium, row) in &mut rows {
            let variant = row.variant;
            let machine = Machine { tools: &tools, work: &asked.work, variant, disk, medium, clock: asked.clock };
            let boot = machine.boot(number)?;
            let (up, busy) = (boot.up, boot.busy);
            eprintln!("{} {number}/{}: kubelet at {up:.2} s, busy {busy:.2} s", variant.name(), asked.runs);
            row.boots.push(boot);
        }
    }
    let contained = if asked.nspawn { start_all(&bench, &expected, asked.runs)? } else { Vec::new() };
    let report = Report { rows: rows.into_iter().map(|(_, _, row)| row).collect(), contained, clock: asked.clock };
    let file = asked.work.join("report.json");
    fs::write(&file, format!("{:#}\n", report.json())).map_err(Error::file(&file))?;
    if let Some(svg) = bars(&report) {
        let file = asked.work.join("report.svg");
        fs::write(&file, svg).map_err(Error::file(&file))?;
    }
    Ok(report)
}

/// Makes disks. That of a node that ran before is made once.
struct Machines<'a> {
    bench: &'a Bench<'a>,
    asked: &'a Asked,
    expected: &'a Configured,
    donor: Option<Disk>,
}

impl Machines<'_> {
    fn disk(&mut self, variant: Variant) -> Result<Disk, Error> {
        if !variant.has_donor() {
            return self.bench.disk(variant, self.expected);
        }
        if let Some(donor) = &self.donor {
            return Ok(donor.clone());
        }
        let below = self.bench.disk_as("donor", Variant::Kilnd, self.expected)?;
        let medium = self.bench.medium(Variant::Kilnd)?;
        let (tools, work, clock) = (self.bench.tools, &self.asked.work, self.asked.clock);
        let machine = Machine { tools, work, variant: Variant::Kilnd, disk: &below, medium: &medium, clock };
        eprintln!("the donor of `again` and `clone` starts for the first time");
        let donor = machine.become_donor()?;
        self.donor = Some(donor.clone());
        Ok(donor)
    }
}

/// Counts what the shipped kilnd costs a node: a table, and whether every budget holds.
pub fn count(root: &Path) -> Result<(String, bool), Error> {
    let architecture = Architecture::of_rust(std::env::consts::ARCH)?;
    let built = build(root, Program::Kilnd, Program::Kilnd.profile(), architecture)?;
    let cache = test_deps::Cache::of_user().map_err(|error| Error::Part(error.to_string()))?;
    cache.find(Part::NodeRoot).map_err(|error| Error::Part(error.to_string()))?;
    // Debian's strace, with the libraries that it was built for.
    let debian = cache.folder(Part::NodeRoot).join("root");
    let library = debian.join("usr/lib/x86_64-linux-gnu");
    let words = [library.join("ld-linux-x86-64.so.2"), "--library-path".into(), library, debian.join("usr/bin/strace")];
    let strace = words.map(|word| word.display().to_string());
    let work = root.join("target/boot-bench/node");
    folder(&work)?;
    let figures = measure(&built.path, &root.join("units"), &strace, &work)?;
    let (table, well) = table(&figures);
    Ok((format!("{table}\nbuilt for {}\n", built.how()), well))
}

/// The kernel of the root, under a name without its version.
fn kernel(base: &Path, work: &Path) -> Result<(), Error> {
    let boot = base.join("boot");
    let entries = fs::read_dir(&boot).map_err(Error::file(&boot))?;
    let kernel = entries
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with("vmlinuz-")));
    let kernel = kernel.ok_or_else(|| Error::Part(format!("{} has no kernel", boot.display())))?;
    fs::copy(&kernel, work.join("vmlinuz")).map(drop).map_err(Error::file(&kernel))
}

/// The chain and the picture of each variant's first boot, beside its capture. Outside of the lab's namespaces: it compiles `kiln`.
pub fn pictures(root: &Path, asked: &Asked) -> Result<(), Error> {
    if !asked.pictures {
        return Ok(());
    }
    let kiln = |words: &[&str], capture: &Path| {
        let mut command = Command::new("cargo");
        command.current_dir(root).args(["run", "--quiet", "--locked", "--package", "kiln", "--", "boot"]);
        command.args(words).arg("--capture").arg(capture).stdin(Stdio::null());
        command
    };
    for variant in &asked.variants {
        let capture = asked.work.join("out").join(format!("{}-1", variant.name()));
        finished(kiln(&["plot"], &capture).arg("-o").arg(capture.join("boot.svg")))?;
        let mut command = kiln(&["chain", "kubelet.service"], &capture);
        let chain = command.output().map_err(|source| Error::Command { line: shown(&command), source })?;
        if !chain.status.success() {
            let output = String::from_utf8_lossy(&chain.stderr).into_owned();
            return Err(Error::Exit { line: shown(&command), status: chain.status.to_string(), output });
        }
        let file = capture.join("chain.txt");
        fs::write(&file, chain.stdout).map_err(Error::file(&file))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(line: &str) -> Result<Asked, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        parse(Path::new("/kiln"), &words)
    }

    #[test]
    fn without_a_variant_all_are_booted_once() {
        let alone = asked("--nspawn").unwrap();
        assert!(alone.nspawn && alone.variants.is_empty() && !asked("--variant floor").unwrap().nspawn);
        let asked = asked("").unwrap();
        assert!(asked.nspawn);
        assert_eq!((asked.variants.len(), asked.runs, asked.clock), (7, 1, Clock::Wall));
        assert_eq!(asked.work, Path::new("/kiln/target/boot-bench"));
        assert!(parse(Path::new("/kiln"), &["--work".to_owned(), "here".to_owned()]).unwrap().work.is_absolute());
    }

    #[test]
    fn wrong_usage_names_the_word_that_is_wrong() {
        for (line, word) in [
            ("--variant bios", "`bios`"),
            ("--runs 0", "from 1"),
            ("--runs", "`--runs` needs"),
            ("--speed", "`--speed`"),
            ("--output xml", "`xml`"),
        ] {
            assert!(asked(line).unwrap_err().contains(word), "{line}");
        }
    }
}
