//! `cargo xtask boot-bench`: its options, and the boots in turns.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use kiln_machines::command::{self, command_line};
use kiln_machines::tools;
use packaging::{Architecture, Program, build};
use test_deps::TestDep;

use crate::boot::Disk;
use crate::chart::draw_bars;
use crate::container::start_all;
use crate::expected::Configured;
use crate::node::{measure, table};
use crate::report::{Report, Row};
use crate::rootfs::Bench;
use crate::tree::create_folder;
use crate::{Clock, Error, Variant, metadata};

/// The text of `--help`.
pub const HELP: &str = "\
Boots the same machine configured in different ways, in QEMU, and measures the boot up to kubelet. Needs root.

usage: cargo xtask boot-bench [--variant NAME]… [--nspawn] [--runs N] [--icount] [--kilnd FILE] [--no-charts] [--output text|json] [--work DIR]

  --variant NAME  floor | kilnd | again | clone | kilnd-imds | wait-for-network | cloud-init [default: all of these]
                  disks: swap and a root partition that grows; a test without a comparison
  --nspawn        also start floor, kilnd and cloud-init in nspawn; without `--variant`, start only those.
                  Without `--variant` and `--nspawn`, everything is measured
  --runs N        boots of each variant, in turns [default: 1]
  --icount        the clock counts instructions, so that other work on this host does not change the result
  --kilnd FILE    use this static program instead of compiling one
  --no-charts     do not draw charts and chains of the boots, which compiles kiln
  --output FORMAT text | json [default: text]
  --work DIR      folder for disks, captures and charts [default: target/boot-bench]

`cargo xtask bench node` measures what kilnd costs a node.

Exit codes: 0 every budget that could be checked is met, 1 a budget is exceeded or the measurement failed, 2 wrong usage.
";

/// The options of the boot bench.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    pub variants: Vec<Variant>,
    /// Whether the variants for nspawn are started too.
    pub nspawn: bool,
    /// The number of boots of each variant.
    pub runs: usize,
    pub clock: Clock,
    /// The program to measure; compiled without it.
    pub kilnd: Option<PathBuf>,
    /// Whether charts and chains are drawn afterwards.
    pub charts: bool,
    pub json: bool,
    /// The folder for all files.
    pub work: PathBuf,
}

/// Parses the arguments after `boot`. The error is a message for the user.
pub fn parse(root: &Path, words: &[String]) -> Result<Options, String> {
    let mut options = Options {
        variants: Vec::new(),
        nspawn: false,
        runs: 1,
        clock: Clock::Wall,
        kilnd: None,
        charts: true,
        json: false,
        work: root.join("target/boot-bench"),
    };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().map(String::as_str).ok_or(format!("`{word}` needs a value"));
        match word.as_str() {
            "--no-charts" => options.charts = false,
            "--nspawn" => options.nspawn = true,
            "--icount" => options.clock = Clock::Instructions,
            "--variant" => {
                let name = value()?;
                options.variants.push(Variant::from_name(name).ok_or(format!("unknown variant `{name}`"))?);
            }
            "--runs" => {
                let runs = value()?.parse().ok().filter(|runs| *runs > 0);
                options.runs = runs.ok_or("`--runs` needs a number of at least 1")?;
            }
            "--output" => {
                options.json = match value()? {
                    "json" => true,
                    "text" => false,
                    other => return Err(format!("unknown format `{other}`; expected `text` or `json`")),
                }
            }
            "--kilnd" => options.kilnd = Some(value()?.into()),
            "--work" => options.work = std::path::absolute(value()?).map_err(|error| format!("`--work`: {error}"))?,
            _ => return Err(format!("unknown argument `{word}`")),
        }
    }
    if options.variants.is_empty() && !options.nspawn {
        options.nspawn = true;
        options.variants = Variant::measured();
    }
    Ok(options)
}

/// Boots the machines. This process must be in private namespaces for mounts, processes and network, so that everything ends with it.
pub fn run(root: &Path, options: &Options) -> Result<Report, Error> {
    let cache = test_deps::Cache::of_user().map_err(|error| Error::Dependency(error.to_string()))?;
    let root_of = |part: TestDep| match cache.find(part) {
        Ok(_) => Ok(cache.folder(part).join("root")),
        Err(error) => Err(Error::Dependency(error.to_string())),
    };
    let (tools, base) = (root_of(TestDep::BenchTools)?, root_of(TestDep::BenchRoot)?);
    create_folder(&options.work)?;
    let kilnd = if let Some(given) = &options.kilnd {
        given.clone()
    } else {
        let architecture = Architecture::from_rust(std::env::consts::ARCH)?;
        build(root, Program::Kilnd, Program::Kilnd.profile(), architecture)?.path
    };
    packaging::refuse_dynamic(&kilnd)?;
    let _metadata = metadata::serve()?;
    let kernel = find_kernel(&base)?;
    let units = root.join("units");
    let bench = Bench { tools: &tools, base: &base, work: &options.work, kilnd: &kilnd, units: &units };
    let expected = bench.expected()?;
    let mut disks = Disks { bench: &bench, kernel: &kernel, clock: options.clock, expected: &expected, donor: None };
    let mut rows = Vec::new();
    for &variant in &options.variants {
        let (disk, (_, media)) = (disks.create(variant)?, bench.media(variant)?);
        rows.push((disk, media, Row { variant, boots: Vec::new() }));
    }
    // In turns, so that a slow phase of the host affects all variants.
    for number in 1..=options.runs {
        for (disk, media, row) in &mut rows {
            let variant = row.variant;
            let boot = bench.machine(&kernel, variant, disk, media, options.clock).boot(number)?;
            let (up, busy) = (boot.up, boot.busy);
            eprintln!("{} {number}/{}: kubelet at {up:.2} s, busy {busy:.2} s", variant.name(), options.runs);
            row.boots.push(boot);
        }
    }
    let contained = if options.nspawn { start_all(&bench, &expected, options.runs)? } else { Vec::new() };
    let report = Report { rows: rows.into_iter().map(|(_, _, row)| row).collect(), contained, clock: options.clock };
    let file = options.work.join("report.json");
    fs::write(&file, format!("{:#}\n", report.json())).map_err(Error::file(&file))?;
    if let Some(svg) = draw_bars(&report) {
        let file = options.work.join("report.svg");
        fs::write(&file, svg).map_err(Error::file(&file))?;
    }
    Ok(report)
}

/// Creates disks. The disk of a node that has run before is created once.
struct Disks<'a> {
    bench: &'a Bench<'a>,
    kernel: &'a Path,
    clock: Clock,
    expected: &'a Configured,
    donor: Option<Disk>,
}

impl Disks<'_> {
    fn create(&mut self, variant: Variant) -> Result<Disk, Error> {
        if !variant.has_donor() {
            return self.bench.disk(variant, self.expected);
        }
        if let Some(donor) = &self.donor {
            return Ok(donor.clone());
        }
        let below = self.bench.disk_as("donor", Variant::Kilnd, self.expected)?;
        let (_, media) = self.bench.media(Variant::Kilnd)?;
        eprintln!("booting the donor of `again` and `clone` for the first time");
        let donor = self.bench.machine(self.kernel, Variant::Kilnd, &below, &media, self.clock).become_donor()?;
        self.donor = Some(donor.clone());
        Ok(donor)
    }
}

/// Measures what the shipped kilnd costs a node. Returns a table, and whether every budget is met.
pub fn measure_kilnd(root: &Path) -> Result<(String, bool), Error> {
    let architecture = Architecture::from_rust(std::env::consts::ARCH)?;
    let built = build(root, Program::Kilnd, Program::Kilnd.profile(), architecture)?;
    let cache = test_deps::Cache::of_user().map_err(|error| Error::Dependency(error.to_string()))?;
    for root in [TestDep::NodeRoot, TestDep::ImageRoot] {
        cache.find(root).map_err(|error| Error::Dependency(error.to_string()))?;
    }
    let strace = tools::program(Some(&cache.folder(TestDep::NodeRoot).join("root")), "strace");
    let work = root.join("target/boot-bench/node");
    create_folder(&work)?;
    let figures = measure(&built.path, &root.join("units"), &strace, &work)?;
    let (table, is_within_budget) = table(&figures);
    Ok((format!("{table}\nbuilt for {}\n", built.description()), is_within_budget))
}

/// The kernel in a root folder.
fn find_kernel(base: &Path) -> Result<PathBuf, Error> {
    let boot = base.join("boot");
    let entries = fs::read_dir(&boot).map_err(Error::file(&boot))?;
    let kernel = entries
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with("vmlinuz-")));
    kernel.ok_or_else(|| Error::Dependency(format!("`{}` has no kernel", boot.display())))
}

/// Draws the critical chain and the chart of each variant's first boot, next to its capture. This compiles `kiln`, so it runs outside of the
/// private namespaces.
pub fn draw_charts(root: &Path, options: &Options) -> Result<(), Error> {
    if !options.charts {
        return Ok(());
    }
    let kiln = |words: &[&str], capture: &Path| {
        let mut command = Command::new("cargo");
        command.current_dir(root).args(["run", "--quiet", "--locked", "--package", "kiln", "--", "boot"]);
        command.args(words).arg("--capture").arg(capture).stdin(Stdio::null());
        command
    };
    for variant in &options.variants {
        let capture = options.work.join("out").join(format!("{}-1", variant.name()));
        command::run(kiln(&["plot"], &capture).arg("-o").arg(capture.join("boot.svg")))?;
        let mut command = kiln(&["chain", "kubelet.service"], &capture);
        let chain = command.output().map_err(Error::spawn("cargo"))?;
        if !chain.status.success() {
            let output = String::from_utf8_lossy(&chain.stderr).into_owned();
            let (line, status) = (command_line(&command), chain.status.to_string());
            return Err(kiln_machines::Error::Failed { line, status, output }.into());
        }
        let file = capture.join("chain.txt");
        fs::write(&file, chain.stdout).map_err(Error::file(&file))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Options, String> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        parse(Path::new("/kiln"), &words)
    }

    #[test]
    fn without_a_variant_all_are_booted_once() {
        let only_nspawn = parsed("--nspawn").unwrap();
        assert!(only_nspawn.nspawn && only_nspawn.variants.is_empty() && !parsed("--variant floor").unwrap().nspawn);
        let options = parsed("").unwrap();
        assert!(options.nspawn);
        assert_eq!((options.variants.len(), options.runs, options.clock), (7, 1, Clock::Wall));
        assert_eq!(options.work, Path::new("/kiln/target/boot-bench"));
        assert!(parse(Path::new("/kiln"), &["--work".to_owned(), "here".to_owned()]).unwrap().work.is_absolute());
    }

    #[test]
    fn wrong_usage_names_the_wrong_argument() {
        for (line, word) in [
            ("--variant bios", "`bios`"),
            ("--runs 0", "at least 1"),
            ("--runs", "`--runs` needs"),
            ("--speed", "`--speed`"),
            ("--output xml", "`xml`"),
        ] {
            assert!(parsed(line).unwrap_err().contains(word), "{line}");
        }
    }
}
