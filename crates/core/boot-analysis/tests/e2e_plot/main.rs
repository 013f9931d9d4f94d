//! Lays out pictures of boots in a real browser: no label leaves the picture, overlaps another one or is too small to read.

mod browser;
#[expect(dead_code, reason = "expected findings are used by the other test")]
#[path = "../planted/cause.rs"]
mod cause;
mod check;
#[path = "../support/dice.rs"]
mod dice;
#[path = "../planted/world.rs"]
mod world;

use browser::{Measured, measure};
use cause::{Cause, plant};
use check::problems;
use dice::Dice;
use kiln_boot_analysis::explain::{Explanation, explain};
use kiln_boot_analysis::plot::plot;
use kiln_boot_analysis::{Boot, capture, chain_text};
use world::{Planned, World};

struct Case {
    name: String,
    explained: Explanation,
    svg: String,
}

impl Case {
    fn new(name: impl Into<String>, boot: &Boot, unit: &str) -> Self {
        let explained = explain(boot, unit).expect("an explanation");
        let svg = plot(boot, &explained);
        Self { name: name.into(), explained, svg }
    }

    fn problems(&self, measured: &Measured) -> Vec<String> {
        problems(measured, self.explained.unit.as_str(), self.explained.hops.len())
    }
}

fn pasted(name: &str, text: &str) -> Case {
    let boot = chain_text::parse(text).expect("a chain");
    Case::new(name, &boot, boot.pasted_root().expect("its unit"))
}

fn recorded() -> Case {
    let text = format!("{}\n{}", include_str!("../recorded/manager.txt"), include_str!("../recorded/units.txt"));
    Case::new("recorded", &capture::parse(&text).expect("a capture"), "multi-user.target")
}

/// A boot with a planted cause and many more units with unusual names.
fn random(seed: u64, others: usize) -> Case {
    let mut dice = Dice::new(seed + 50_000);
    let (mut world, spine) = World::quiet(&mut dice);
    let cause = Cause::ALL[dice.place(Cause::ALL.len())];
    let index = dice.place(spine.0.len());
    plant(&mut world, &spine, index, cause, &mut dice);
    for index in 0..others {
        let name = match dice.below(5) {
            0 => format!("dev-disk-by\\x2did-{}.device", "x".repeat(dice.place(200))),
            1 => format!("<{index}&\"ü漢字>.service"),
            2 => format!("run-user-{index}.mount"),
            _ => format!("unit{index}.service"),
        };
        let (run, queue) = (dice.below(3) * dice.below(90_000_000), dice.below(40_000_000));
        world.add(Planned { name: format!("{index}{name}"), run, queue, ..Planned::default() });
    }
    let boot = capture::parse(&world.capture()).expect("a capture");
    Case::new(format!("{cause:?} {seed}"), &boot, "kubelet.service")
}

#[test]
fn labels_are_inside_the_picture_readable_and_do_not_overlap() {
    let mut cases = vec![
        pasted("network", include_str!("../aks_boot/network.txt")),
        pasted("preprovisioned", include_str!("../aks_boot/preprovisioned.txt")),
        pasted("cloud-final", include_str!("../aks_boot/cloud-final.txt")),
        pasted("walinuxagent", include_str!("../aks_boot/walinuxagent.txt")),
        recorded(),
        random(0, 1_000),
    ];
    cases.extend((1..40).map(|seed| random(seed, 12)));
    let pictures: Vec<String> = cases.iter().map(|case| case.svg.clone()).collect();
    let measured = measure(&pictures);
    for (case, measured) in cases.iter().zip(&measured) {
        let problems = case.problems(measured);
        assert!(problems.is_empty(), "{}: {} problems:\n{}", case.name, problems.len(), problems.join("\n"));
        assert!(measured.texts.len() > 10 && measured.bars.len() > 5, "{}: too few elements were measured", case.name);
    }
    let thousand = &measured[5];
    assert!(thousand.bars.len() > 1_000, "{} bars", thousand.bars.len());
    // The chain must fit on the first screen however many other units there are.
    let lowest = thousand.bars.iter().filter(|bar| bar.classes.contains("chain")).map(|bar| bar.place[3]);
    assert!(lowest.fold(0.0, f64::max) < 900.0);
}

/// Tests the checks: each picture has one defect, which must be found.
#[test]
fn defects_of_a_picture_are_found() {
    let case = recorded();
    let replace = |from: &str, to: &str| {
        assert!(case.svg.contains(from), "not in the picture: {from}");
        case.svg.replacen(from, to, 1)
    };
    let label = case.svg.lines().find(|line| line.contains("chain-name")).expect("a label").to_owned();
    let (_, bar) = case.svg.split_once("class=\"bar run\"").expect("a bar");
    let (_, hover) = bar.split_once("<title>").expect("its hover text");
    let hover = format!("<title>{}</title>", hover.split_once("</title>").expect("its end").0);
    let away = label.replacen(" x=\"", " x=\"-9", 1);
    let defects = [
        (replace(&label, &away), "leaves the picture"),
        (replace(&label, &format!("{label}\n{label}")), "overlap"),
        (replace(&hover, ""), "has no hover text"),
        (replace(".s11{font-size:11px}", ".s11{font-size:6px}"), "px high"),
        (replace("class=\"mark\"", "class=\"line\""), "0 marks"),
        (replace("class=\"bar chain\"", "class=\"bar run\""), "hops have"),
        (replace(".chain{fill:#c2410c}", ".chain{fill:#94a3b8}"), "same colour as other units"),
        (replace("</svg>", "</sgv>"), "not valid XML"),
    ];
    let pictures: Vec<String> = defects.iter().map(|(svg, _)| svg.clone()).collect();
    for (measured, (_, wanted)) in measure(&pictures).iter().zip(&defects) {
        let problems = case.problems(measured);
        assert!(problems.iter().any(|problem| problem.contains(wanted)), "{wanted}: {problems:?}");
    }
}
