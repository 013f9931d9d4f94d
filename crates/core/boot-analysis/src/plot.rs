//! A boot as an SVG picture: the chain to one unit on top, all other units below.

mod axis;
mod canvas;
mod head;
mod rows;

use std::collections::BTreeSet;

use crate::explain::{Explanation, Hop, MANAGER};
use crate::model::{Boot, Unit};
use crate::span::Usec;

use crate::svg::Svg;
use axis::Axis;
use canvas::Canvas;

/// Fits a laptop screen without horizontal scrolling.
const WIDTH: f64 = 1_240.0;
/// Room for half an axis label at each end.
const MARGIN: f64 = 44.0;
/// How many of the longest units are drawn. No browser renders 100,000 rows.
const MAX_UNITS: usize = 2_000;
/// How many of the longest hops are drawn. Real chains are much shorter.
const MAX_HOPS: usize = 120;

/// A row of the chain.
struct Step<'a> {
    hop: &'a Hop,
    unit: Option<&'a Unit>,
}

/// The part of the boot that is drawn.
struct Scene<'a> {
    boot: &'a Boot,
    explained: &'a Explanation,
    axis: Axis,
    /// From PID 1 to the explained unit.
    chain: Vec<Step<'a>>,
    /// Ordered by start.
    others: Vec<(&'a str, &'a Unit)>,
    omitted: Omitted,
}

/// Counts of what is not drawn, for a note in the picture.
#[derive(Default)]
struct Omitted {
    hops: usize,
    /// Units with a shorter start-up time than those that are drawn.
    short: usize,
    /// Units that started after the end of the axis.
    late: usize,
}

/// Draws a boot. The chain to the explained unit is highlighted on top; the other units show what ran at the same time.
pub fn plot(boot: &Boot, explained: &Explanation) -> String {
    let scene = Scene::new(boot, explained);
    let mut canvas = Canvas(Svg::new(WIDTH));
    let top = head::draw(&mut canvas, &scene);
    let bottom = rows::draw(&mut canvas, &scene, top);
    canvas.into_document(bottom, &head::title(explained))
}

impl<'a> Scene<'a> {
    fn new(boot: &'a Boot, explained: &'a Explanation) -> Self {
        let userspace = boot.userspace();
        let finish = boot.manager.finish.filter(|at| *at > Usec::ZERO).map(|at| at - userspace);
        let ready = explained.began + explained.hops[0].ran.unwrap_or_default();
        let end = finish.unwrap_or_default().max(ready).max(Usec(1_000));
        let mut omitted = Omitted::default();
        let mut hops: Vec<&Hop> = explained.hops.iter().collect();
        if hops.len() > MAX_HOPS {
            omitted.hops = hops.len() - MAX_HOPS;
            let first = hops.remove(0);
            hops.sort_by_key(|hop| std::cmp::Reverse(hop.spent()));
            hops.truncate(MAX_HOPS - 1);
            hops.push(first);
        }
        hops.sort_by_key(|hop| (hop.began, std::cmp::Reverse(hop.unit.as_str() == MANAGER)));
        // A complete chain is already ordered, from its end; sorting could swap hops with the same start.
        if omitted.hops == 0 {
            hops = explained.hops.iter().rev().collect();
        }
        let chain: Vec<Step<'_>> =
            hops.into_iter().map(|hop| Step { hop, unit: boot.unit(hop.unit.as_str()) }).collect();
        let on_chain: BTreeSet<&str> = explained.hops.iter().map(|hop| hop.unit.as_str()).collect();
        let started = boot.units.iter().filter(|(_, unit)| unit.is_started());
        let mut others: Vec<(&str, &Unit)> =
            started.map(|(name, unit)| (name.as_str(), unit)).filter(|(name, _)| !on_chain.contains(name)).collect();
        let all = others.len();
        others.retain(|(_, unit)| unit.began().unwrap_or_default() - userspace <= end);
        omitted.late = all - others.len();
        if others.len() > MAX_UNITS {
            omitted.short = others.len() - MAX_UNITS;
            others.sort_by_key(|(_, unit)| (std::cmp::Reverse(unit.time()), unit.index));
            others.truncate(MAX_UNITS);
        }
        others.sort_by_key(|(_, unit)| (unit.activating, unit.index));
        let before = if boot.pasted.is_some() { Usec::ZERO } else { userspace };
        let axis = Axis::new(before, end, explained, MARGIN, WIDTH - MARGIN);
        Self { boot, explained, axis, chain, others, omitted }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::explain;
    use crate::what_if::tests::boot;

    fn drawn(lines: &str, unit: &str) -> String {
        let boot = boot(lines);
        plot(&boot, &explain(&boot, unit).unwrap())
    }

    #[test]
    fn the_chain_is_highlighted_and_the_unit_is_marked() {
        let svg =
            drawn("a.service 100 400\nside.service 100 100\nkubelet.service 1500 10 a.service", "kubelet.service");
        assert_eq!(svg.matches("class=\"bar chain\"").count(), 2);
        assert_eq!(svg.matches("class=\"bar run\"").count(), 1);
        assert!(
            svg.contains("kubelet.service 1.500s") && svg.contains("waited 1s: outside systemd: unknown cause"),
            "{svg}"
        );
    }

    /// Left edge and width of the bars of a class.
    fn bars(svg: &str, class: &str) -> Vec<[f64; 2]> {
        let number =
            |part: &str, name: &str| part.split_once(&format!("{name}=\""))?.1.split('"').next()?.parse::<f64>().ok();
        let begin = format!("<rect class=\"{class}\"");
        svg.split(&begin).skip(1).filter_map(|part| Some([number(part, " x")?, number(part, " width")?])).collect()
    }

    #[test]
    fn the_initial_ram_disk_is_a_separate_phase() {
        let mut boot = boot("kubelet.service 1500 10");
        boot.manager.userspace = Some(Usec(3_000_000));
        for unit in boot.units.values_mut() {
            unit.activating = unit.activating.map(|at| at + Usec(3_000_000));
            unit.activated = unit.activated.map(|at| at + Usec(3_000_000));
        }
        let drawn = |boot: &Boot| plot(boot, &explain(boot, "kubelet.service").unwrap());
        let [left, whole] = bars(&drawn(&boot), "phase kernel")[0];
        assert!(bars(&drawn(&boot), "phase initrd").is_empty());
        boot.manager.initrd = Some(Usec(1_000_000));
        let svg = drawn(&boot);
        assert!(svg.contains("kernel: 1s<") && svg.contains("initial RAM disk: 2s<"), "{svg}");
        let ([kernel, short], [initrd, long]) = (bars(&svg, "phase kernel")[0], bars(&svg, "phase initrd")[0]);
        let near = |one: f64, other: f64| (one - other).abs() < 0.3;
        assert!(near(kernel, left) && near(initrd, left + short) && near(long, 2.0 * short), "{svg}");
        assert!(near(short + long, whole), "{svg}");
    }

    #[test]
    fn a_name_cannot_break_the_picture() {
        let svg = drawn("<b>&\"\u{1}.service 100 400", "<b>&\"\u{1}.service");
        assert!(!svg.contains("<b>") && !svg.contains('\u{1}'));
    }

    #[test]
    fn of_many_units_the_longest_are_drawn_and_the_rest_is_counted() {
        let mut boot = boot("kubelet.service 9000 10");
        for index in 0..5_000 {
            let began = Usec(1_000 + index);
            let unit = Unit {
                activating: Some(began),
                activated: Some(began + Usec(index)),
                order_recorded: true,
                ..Unit::default()
            };
            boot.units.insert(format!("u{index}.service").into(), unit);
        }
        let svg = plot(&boot, &explain(&boot, "kubelet.service").unwrap());
        assert!(svg.contains(">u4999.service 4ms<") && !svg.contains(">u17.service"), "the longest");
        assert!(svg.contains("3000 shorter ones are not drawn"));
    }

    #[test]
    fn a_long_pause_is_shortened() {
        let svg = drawn(
            "cloud-init-local.service 1000 1000000\nnet.service 1001000 2000 cloud-init-local.service\nkubelet.service 1003000 10 net.service",
            "kubelet.service",
        );
        assert!(svg.contains("not to scale"));
        let short = svg.split("<rect class=\"bar chain\"").find(|part| part.contains("<title>net.service")).unwrap();
        let width =
            short.split("width=\"").nth(1).and_then(|rest| rest.split('"').next()?.parse::<f64>().ok()).unwrap();
        assert!(width > 100.0, "two seconds of three are {width} wide");
    }
}
