//! A critical chain that somebody pasted: all that is left of many a boot.

use crate::model::{Boot, Manager, Unit, UnitName};
use crate::span::Usec;

/// Text that is no critical chain.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadChain {
    /// It has no unit.
    #[error("no unit in the text: paste what `systemd-analyze critical-chain` prints, header included or not")]
    Empty,
    /// A line cannot be read.
    #[error("line {line}: {why}: `{text}`")]
    Line {
        /// From 1.
        line: usize,
        /// What is wrong.
        why: String,
        /// The line, cut short.
        text: String,
    },
}

/// Reads a pasted chain, with the header of any systemd. Times are to the millisecond. A unit that shows no `+` took no time that counts.
pub fn parse(text: &str) -> Result<Boot, BadChain> {
    let mut boot = Boot { manager: Manager { userspace: Some(Usec::ZERO), ..Manager::default() }, ..Boot::default() };
    // Name of the unit at each depth.
    let mut path: Vec<UnitName> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim_end();
        if line.is_empty() || line.starts_with("The time ") || line.trim_start().starts_with('#') {
            continue;
        }
        let bad =
            |why: &str| BadChain::Line { line: index + 1, why: why.to_owned(), text: line.chars().take(80).collect() };
        let depth = line.chars().take_while(|c| " \u{2502}\u{251c}\u{2514}\u{2500}|`-".contains(*c)).count();
        let body = line.chars().skip(depth).collect::<String>();
        let (depth, body) = place(line, depth, &body);
        if body == "..." {
            continue;
        }
        if depth > path.len() {
            return Err(bad("it is deeper than the line above allows"));
        }
        let (name, unit) = entry(&body).map_err(|why| bad(&why))?;
        path.truncate(depth);
        if let Some(parent) = path.last().and_then(|parent| boot.units.get_mut(parent)) {
            parent.after.push(name.clone());
        }
        let unit = Unit { index: boot.units.len(), order_recorded: true, ..unit };
        boot.units.entry(name.clone()).or_insert(unit);
        path.push(name);
    }
    if boot.units.is_empty() {
        return Err(BadChain::Empty);
    }
    boot.pasted = boot.units.iter().find(|(_, unit)| unit.index == 0).map(|(name, _)| name.clone());
    settle_root(&mut boot);
    boot.manager.finish = boot.units.values().filter_map(ended).max();
    Ok(boot)
}

fn ended(unit: &Unit) -> Option<Usec> {
    unit.activating.map(|began| began + unit.time())
}

/// The root shows how long it took and not when: it began when the last that it waited for was ready.
fn settle_root(boot: &mut Boot) {
    let Some(name) = boot.pasted.clone() else { return };
    let Some(root) = boot.units.get(&name).filter(|root| root.activating.is_none()) else { return };
    let ready = root.after.iter().filter_map(|after| ended(boot.units.get(after)?)).max().unwrap_or_default();
    if let Some(root) = boot.units.get_mut(&name) {
        let took = root.activated.unwrap_or_default();
        root.activating = Some(ready);
        root.activated = Some(ready + took);
    }
}

/// A name may begin with the sign of a branch: `-.slice`, `-.mount`.
fn place(line: &str, signs: usize, body: &str) -> (usize, String) {
    if body.starts_with('.') && line.chars().take(signs).last() == Some('-') {
        return ((signs - 1) / 2, format!("-{body}"));
    }
    (signs / 2, body.to_owned())
}

fn entry(body: &str) -> Result<(UnitName, Unit), String> {
    let (name, rest) = body.split_once(' ').unwrap_or((body, ""));
    if !name.contains('.') {
        return Err("no unit has this name".to_owned());
    }
    let (at, took) = match rest.split_once('+') {
        Some((at, took)) => (at.trim(), Some(took.trim())),
        None => (rest.trim(), None),
    };
    let span = |text: &str| text.parse::<Usec>().map_err(|bad| bad.to_string());
    let at = match at.strip_prefix('@') {
        Some(at) => Some(span(at)?),
        None if at.is_empty() => None,
        None => return Err("a time begins with `@`".to_owned()),
    };
    let took = took.map(span).transpose()?;
    let unit = match (at, took) {
        // `@` is the start when there is a `+`, else the time of becoming active.
        (Some(at), took) => {
            Unit { activating: Some(at), activated: Some(at + took.unwrap_or_default()), ..Unit::default() }
        }
        (None, Some(took)) => Unit { activating: None, activated: Some(took), ..Unit::default() },
        (None, None) => Unit { activating: Some(Usec(1)), activated: Some(Usec(1)), ..Unit::default() },
    };
    Ok((name.into(), unit))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SEED: &str = "The time after the unit is active or started is printed after the \"@\" character.
The time the unit takes to start is printed after the \"+\" character.

cloud-final.service +11.703s
└─multi-user.target @33.929s
  └─ephemeral-disk-warning.service @33.896s +29ms
    └─-.slice @1.359s
";

    #[test]
    fn a_pasted_chain_is_read_with_its_old_header() {
        let boot = parse(SEED).unwrap();
        let root = boot.unit("cloud-final.service").unwrap();
        assert_eq!((root.activating, root.time()), (Some(Usec(33_929_000)), Usec(11_703_000)));
        assert_eq!(boot.unit("ephemeral-disk-warning.service").unwrap().time(), Usec(29_000));
        assert_eq!(boot.unit("ephemeral-disk-warning.service").unwrap().after, ["-.slice".into()]);
    }

    #[test]
    fn what_is_no_chain_is_refused_with_the_line() {
        assert_eq!(parse(""), Err(BadChain::Empty));
        let error = parse("a.service @1s\n└─nonsense\n").unwrap_err();
        assert_eq!(error.to_string(), "line 2: no unit has this name: `└─nonsense`");
        assert!(parse("a.service @soon\n").is_err());
    }

    proptest! {
        #[test]
        fn reading_never_panics(text in "[ │├└─a.@+0-9s\n-]{0,80}") {
            let _ = parse(&text);
        }
    }
}
