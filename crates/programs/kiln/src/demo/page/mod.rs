//! The report of the demo: one HTML file that contains its charts and loads nothing.

mod bars;
mod timeline;

use std::fmt::Write as _;

use kiln_types::xml::escape;

use super::outcome::{Boot, Outcome};
use super::report::duration;

pub(super) const STYLE: &str = "
:root { color-scheme: light dark; --ink: #1d2430; --soft: #5b6675; --line: #d7dce3; --paper: #fff; --fast: #2f7d5b; --slow: #b4552d; --held: #c9a227; --step: #3c6ea8; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ee; --soft: #9aa5b4; --line: #39424f; --paper: #161a20; --fast: #5fb48d; --slow: #dd8660; --held: #dcbc4d; --step: #77a5db; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2.5rem; }
p, caption { color: var(--soft); } caption { text-align: left; padding-bottom: .5rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .3rem .8rem .3rem 0; border-bottom: 1px solid var(--line); }
svg { width: 100%; height: auto; } svg text { font: 13px system-ui, sans-serif; fill: var(--ink); } svg .soft { fill: var(--soft); } svg rect { rx: 2px; }
svg .grid { stroke: var(--line); } svg .slow { fill: var(--slow); } svg .fast { fill: var(--fast); } svg .held { fill: var(--held); } svg .step { fill: var(--step); }
svg .shade1 { fill-opacity: .55; } svg .shade2 { fill-opacity: .8; } svg .shade3 { fill-opacity: .4; } svg .shade4 { fill-opacity: .65; }
.scroll { overflow-x: auto; }
";

pub(super) fn html(outcome: &Outcome) -> String {
    let mut page = String::new();
    let (before, after) = (&outcome.before, &outcome.after);
    let title =
        format!("A new node is Ready after {} instead of {}", duration(after.seconds), duration(before.seconds));
    let _ = write!(
        page,
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width\">\n\
         <title>kiln demo: {title}</title>\n<style>{STYLE}</style>\n<h1>{title}</h1>\n\
         <p>Image version {version} of pool {pool} was created from {donor}, and new nodes are created from it. All times are simulated.</p>\n",
        pool = escape(&outcome.pool),
        donor = escape(&outcome.donor),
        version = escape(&outcome.version),
    );
    section(&mut page, "Boot of a new node", &bars::svg(before, after));
    side_by_side(&mut page, before, after);
    let title = format!("Steps of the run; the donor was unavailable for {}", duration(outcome.donor_away));
    section(&mut page, &title, &timeline::svg(&outcome.steps));
    nodes(&mut page, outcome);
    rejected(&mut page, outcome);
    page.push_str("</html>\n");
    page
}

fn section(page: &mut String, title: &str, picture: &str) {
    let _ = write!(page, "<h2>{}</h2>\n<div class=\"scroll\">{picture}</div>\n", escape(title));
}

fn side_by_side(page: &mut String, before: &Boot, after: &Boot) {
    page.push_str("<table>\n<tr><th></th><th>old recipe</th><th>from the image</th></tr>\n");
    let mut row = |what: &str, before: &str, after: &str| {
        let _ = writeln!(page, "<tr><td>{what}</td><td>{}</td><td>{}</td></tr>", escape(before), escape(after));
    };
    row("time until Ready", &duration(before.seconds), &duration(after.seconds));
    row("kernel version", &before.kernel, &after.kernel);
    row("outdated packages", &before.stale_packages.to_string(), &after.stale_packages.to_string());
    row("container images to pull", &before.images_to_pull.to_string(), &after.images_to_pull.to_string());
    page.push_str("</table>\n");
}

fn nodes(page: &mut String, outcome: &Outcome) {
    page.push_str("<h2>Nodes after the run</h2>\n<div class=\"scroll\"><table>\n<tr><th>node</th><th>image</th><th>kernel</th><th>state</th></tr>\n");
    for node in &outcome.nodes {
        let _ = writeln!(
            page,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            escape(&node.name),
            escape(&node.image),
            escape(&node.kernel),
            escape(&node.state),
        );
    }
    page.push_str("</table></div>\n");
}

fn rejected(page: &mut String, outcome: &Outcome) {
    let Some(rejected) = &outcome.rejected else { return };
    let _ = write!(
        page,
        "<h2>A rejected image version</h2>\n<p>{} was created from {}, and its canary failed: {}. The version was never included, so no node \
         was created from it. New nodes are still created from {}.</p>\n",
        escape(&rejected.version),
        escape(&rejected.donor),
        escape(&rejected.reason),
        escape(&rejected.current_version),
    );
}

#[cfg(test)]
mod tests {
    use super::super::outcome::tests::sample;
    use super::*;

    #[test]
    fn the_page_contains_both_boots_the_run_the_nodes_and_the_rejected_version() {
        let page = html(&sample());
        for text in [
            "A new node is Ready after 1 m 08 s instead of 3 m 29 s",
            "script-extension",
            "power-off",
            "vmss000010",
            "A rejected image version",
            "Not to scale",
        ] {
            assert!(page.contains(text), "{text} is missing");
        }
        assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
        assert!(!page.contains("http://") && !page.contains("https://"), "the page loads nothing");
    }

    #[test]
    fn a_node_name_is_escaped() {
        let mut outcome = sample();
        outcome.donor = "<script>x</script>".to_owned();
        assert!(!html(&outcome).contains("<script>"));
    }
}
