//! The page of `kiln prototype` and the program say the same options.

use std::collections::BTreeSet;

use testkit::Kiln;

const PAGE: &str = include_str!("../../../../docs/reference/prototype.md");

/// The long options in a text.
fn options(text: &str) -> BTreeSet<String> {
    let starts =
        text.match_indices("--").filter(|(at, _)| !text[..*at].ends_with(|c: char| c == '-' || c.is_alphanumeric()));
    let name =
        |at: usize| text[at + 2..].chars().take_while(|c| c.is_ascii_lowercase() || *c == '-').collect::<String>();
    starts.map(|(at, _)| name(at)).filter(|name| !name.is_empty() && !name.starts_with('-')).collect()
}

#[test]
fn every_option_is_on_the_page_and_every_option_of_the_page_exists() {
    let kiln = Kiln::at(env!("CARGO_BIN_EXE_kiln"));
    let help = kiln.run(&["prototype", "--help"]).success().stdout;
    let verbs = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let verbs: Vec<&str> =
        verbs.filter_map(|line| line.split_whitespace().next()).filter(|verb| *verb != "help").collect();
    assert_eq!(verbs.len(), 11, "{verbs:?}");
    let mut known = BTreeSet::from(["help".to_owned(), "version".to_owned()]);
    for verb in verbs {
        assert!(PAGE.contains(&format!("| `{verb}")), "{verb} is not in the table of commands");
        let help = kiln.run(&["prototype", verb, "--help"]).success().stdout;
        // What others take is in their examples.
        let own = help.split("Examples:").next().unwrap_or_default();
        known.extend(options(own));
    }
    let documented = options(PAGE);
    let unknown: Vec<_> = documented.difference(&known).collect();
    assert!(unknown.is_empty(), "the page has options that do not exist: {unknown:?}");
    let missing: Vec<_> =
        known.difference(&documented).filter(|name| !["help", "version"].contains(&name.as_str())).collect();
    assert!(missing.is_empty(), "options that are not on the page: {missing:?}");
}

#[test]
fn options_are_found_in_prose_and_in_tables() {
    let found = options("| `-g`, `--resource-group NAME` | a--b --- | ----- `--x`");
    assert_eq!(found, BTreeSet::from(["resource-group".to_owned(), "x".to_owned()]));
}
