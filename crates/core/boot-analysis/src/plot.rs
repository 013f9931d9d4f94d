//! A boot as a picture: the way to one unit on top, and below it all that ran beside.

mod axis;
mod canvas;
mod head;
mod rows;

use std::collections::BTreeSet;

use crate::explain::{Explanation, Hop, MANAGER};
use crate::model::{Boot, Unit};
use crate::span::Usec;

use axis::Axis;
use canvas::Canvas;

/// Wide enough for a second screen, and read without scrolling sideways on the first.
const WIDTH: f64 = 1_240.0;
/// Half of an axis label stands over each end of the axis.
const MARGIN: f64 = 44.0;
/// Below this many of the longest the rest is a sentence: a picture of 100,000 rows is drawn by no browser.
const MOST_UNITS: usize = 2_000;
/// A way of more hops is made up; those that took the most are drawn.
const MOST_HOPS: usize = 120;

/// A row of the way.
struct Step<'a> {
    hop: &'a Hop,
    unit: Option<&'a Unit>,
}

/// What is drawn, chosen from the boot.
struct Scene<'a> {
    boot: &'a Boot,
    explained: &'a Explanation,
    axis: Axis,
    /// From PID 1 to the unit in question.
    way: Vec<Step<'a>>,
    /// In the order of their starts.
    others: Vec<(&'a str, &'a Unit)>,
    left_out: LeftOut,
}

/// What is not drawn, and is said to be not drawn.
#[derive(Default)]
struct LeftOut {
    hops: usize,
    /// Units that took less than those that are drawn.
    short: usize,
    /// Units that began after all that is drawn.
    late: usize,
}

/// Draws a boot. Units of the way to `explained` stand out on top; the rest is there for its place in time.
pub fn plot(boot: &Boot, explained: &Explanation) -> String {
    let scene = Scene::new(boot, explained);
    let mut canvas = Canvas::new(WIDTH);
    let top = head::draw(&mut canvas, &scene);
    let bottom = rows::draw(&mut canvas, &scene, top);
    canvas.finished(bottom, &head::title(explained))
}

impl<'a> Scene<'a> {
    fn new(boot: &'a Boot, explained: &'a Explanation) -> Self {
        let userspace = boot.userspace();
        let finish = boot.manager.finish.filter(|at| *at > Usec::ZERO).map(|at| at - userspace);
        let ready = explained.began + explained.hops[0].ran.unwrap_or_default();
        let end = finish.unwrap_or_default().max(ready).max(Usec(1_000));
        let mut left_out = LeftOut::default();
        let mut hops: Vec<&Hop> = explained.hops.iter().collect();
        if hops.len() > MOST_HOPS {
            left_out.hops = hops.len() - MOST_HOPS;
            let first = hops.remove(0);
            hops.sort_by_key(|hop| std::cmp::Reverse(hop.spent()));
            hops.truncate(MOST_HOPS - 1);
            hops.push(first);
        }
        hops.sort_by_key(|hop| (hop.began, std::cmp::Reverse(hop.unit.as_str() == MANAGER)));
        // The way is recorded from its end; of hops that began together the earlier is the later in it.
        if left_out.hops == 0 {
            hops = explained.hops.iter().rev().collect();
        }
        let way: Vec<Step<'_>> = hops.into_iter().map(|hop| Step { hop, unit: boot.unit(hop.unit.as_str()) }).collect();
        let on_way: BTreeSet<&str> = explained.hops.iter().map(|hop| hop.unit.as_str()).collect();
        let started = boot.units.iter().filter(|(_, unit)| unit.is_started());
        let mut others: Vec<(&str, &Unit)> =
            started.map(|(name, unit)| (name.as_str(), unit)).filter(|(name, _)| !on_way.contains(name)).collect();
        let all = others.len();
        others.retain(|(_, unit)| unit.began().unwrap_or_default() - userspace <= end);
        left_out.late = all - others.len();
        if others.len() > MOST_UNITS {
            left_out.short = others.len() - MOST_UNITS;
            others.sort_by_key(|(_, unit)| (std::cmp::Reverse(unit.time()), unit.index));
            others.truncate(MOST_UNITS);
        }
        others.sort_by_key(|(_, unit)| (unit.activating, unit.index));
        let before = if boot.pasted.is_some() { Usec::ZERO } else { userspace };
        let axis = Axis::new(before, end, explained, MARGIN, WIDTH - MARGIN);
        Self { boot, explained, axis, way, others, left_out }
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
    fn the_way_stands_out_and_the_unit_is_marked() {
        let svg =
            drawn("a.service 100 400\nside.service 100 100\nkubelet.service 1500 10 a.service", "kubelet.service");
        assert_eq!(svg.matches("class=\"bar way\"").count(), 2);
        assert_eq!(svg.matches("class=\"bar run\"").count(), 1);
        assert!(svg.contains("kubelet.service 1.500s") && svg.contains("waited 1s: outside: unknown"), "{svg}");
    }

    /// Left end and width of the bars of a class.
    fn bars(svg: &str, class: &str) -> Vec<[f64; 2]> {
        let number =
            |part: &str, name: &str| part.split_once(&format!("{name}=\""))?.1.split('"').next()?.parse::<f64>().ok();
        let begin = format!("<rect class=\"{class}\"");
        svg.split(&begin).skip(1).filter_map(|part| Some([number(part, " x")?, number(part, " width")?])).collect()
    }

    #[test]
    fn the_initial_ram_disk_is_a_phase_apart_from_the_kernel() {
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
    fn of_a_hundred_thousand_units_the_longest_are_drawn_and_the_rest_is_counted() {
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
        assert!(svg.contains("3000 that took less are not drawn"));
    }

    #[test]
    fn a_pause_does_not_press_the_rest_of_the_boot_to_the_edge() {
        let svg = drawn(
            "cloud-init-local.service 1000 1000000\nnet.service 1001000 2000 cloud-init-local.service\nkubelet.service 1003000 10 net.service",
            "kubelet.service",
        );
        assert!(svg.contains("not to scale"));
        let short = svg.split("<rect class=\"bar way\"").find(|part| part.contains("<title>net.service")).unwrap();
        let width =
            short.split("width=\"").nth(1).and_then(|rest| rest.split('"').next()?.parse::<f64>().ok()).unwrap();
        assert!(width > 100.0, "two seconds of three are {width} wide");
    }
}
