//! Parser for a pasted critical chain, which is often all that was kept of a boot.

use crate::model::{Boot, Manager, Unit, UnitName};
use crate::span::Usec;

/// A text that is not a critical chain.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadChain {
    #[error("no units found; expected the output of `systemd-analyze critical-chain`, with or without its header")]
    Empty,
    #[error("line {line}: {why}: `{text}`")]
    Line {
        /// Counted from 1.
        line: usize,
        why: String,
        /// At most 80 characters.
        text: String,
    },
}

/// Parses a pasted chain with the header of any systemd version. Times are in milliseconds. A unit without a `+` took no measurable time.
pub fn parse(text: &str) -> Result<Boot, BadChain> {
    let mut boot = Boot { manager: Manager { userspace: Some(Usec::ZERO), ..Manager::default() }, ..Boot::default() };
    // The unit at each depth.
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
        let (depth, body) = split_depth(line, depth, &body);
        if body == "..." {
            continue;
        }
        if depth > path.len() {
            return Err(bad("indented deeper than the line above allows"));
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
    infer_root_start(&mut boot);
    boot.manager.finish = boot.units.values().filter_map(ended).max();
    Ok(boot)
}

fn ended(unit: &Unit) -> Option<Usec> {
    unit.activating.map(|began| began + unit.time())
}

/// The first line of a chain has a duration but no start. The unit started when the last unit it waited for was ready.
fn infer_root_start(boot: &mut Boot) {
    let Some(name) = boot.pasted.clone() else { return };
    let Some(root) = boot.units.get(&name).filter(|root| root.activating.is_none()) else { return };
    let ready = root.after.iter().filter_map(|after| ended(boot.units.get(after)?)).max().unwrap_or_default();
    if let Some(root) = boot.units.get_mut(&name) {
        let took = root.activated.unwrap_or_default();
        root.activating = Some(ready);
        root.activated = Some(ready + took);
    }
}

/// Separates the tree characters from the name. A name can start with one of them: `-.slice`, `-.mount`.
fn split_depth(line: &str, signs: usize, body: &str) -> (usize, String) {
    if body.starts_with('.') && line.chars().take(signs).last() == Some('-') {
        return ((signs - 1) / 2, format!("-{body}"));
    }
    (signs / 2, body.to_owned())
}

fn entry(body: &str) -> Result<(UnitName, Unit), String> {
    let (name, rest) = body.split_once(' ').unwrap_or((body, ""));
    if !name.contains('.') {
        return Err("not a unit name".to_owned());
    }
    let (at, took) = match rest.split_once('+') {
        Some((at, took)) => (at.trim(), Some(took.trim())),
        None => (rest.trim(), None),
    };
    let span = |text: &str| text.parse::<Usec>().map_err(|bad| bad.to_string());
    let at = match at.strip_prefix('@') {
        Some(at) => Some(span(at)?),
        None if at.is_empty() => None,
        None => return Err("a time must start with `@`".to_owned()),
    };
    let took = took.map(span).transpose()?;
    let unit = match (at, took) {
        // `@` is the start if there is a `+`, otherwise the time at which the unit became active.
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
    fn a_pasted_chain_with_an_old_header_is_parsed() {
        let boot = parse(SEED).unwrap();
        let root = boot.unit("cloud-final.service").unwrap();
        assert_eq!((root.activating, root.time()), (Some(Usec(33_929_000)), Usec(11_703_000)));
        assert_eq!(boot.unit("ephemeral-disk-warning.service").unwrap().time(), Usec(29_000));
        assert_eq!(boot.unit("ephemeral-disk-warning.service").unwrap().after, ["-.slice".into()]);
    }

    #[test]
    fn an_invalid_line_is_reported_with_its_number() {
        assert_eq!(parse(""), Err(BadChain::Empty));
        let error = parse("a.service @1s\n└─nonsense\n").unwrap_err();
        assert_eq!(error.to_string(), "line 2: not a unit name: `└─nonsense`");
        assert!(parse("a.service @soon\n").is_err());
    }

    proptest! {
        #[test]
        fn parsing_never_panics(text in "[ │├└─a.@+0-9s\n-]{0,80}") {
            let _ = parse(&text);
        }
    }
}
