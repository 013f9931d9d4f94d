//! Kiln's block in a file that other programs write too.

const BEGIN: &str = "# kiln: begin";
const END: &str = "# kiln: end";

/// The text with kiln's block at its end, or without one if the block is empty. Other lines stay unchanged.
pub fn compose(text: &str, block: &str) -> String {
    let mut out = String::with_capacity(text.len() + block.len());
    let mut inside = false;
    for line in text.split_inclusive('\n') {
        match line.trim_end() {
            BEGIN => inside = true,
            END if inside => inside = false,
            _ if inside => {}
            _ => out.push_str(line),
        }
    }
    if !block.is_empty() {
        if !out.is_empty() && !out.ends_with('\n') {
            out.push('\n');
        }
        for line in [BEGIN, block.trim_end(), END] {
            out.push_str(line);
            out.push('\n');
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn block_is_replaced_and_other_lines_stay() {
        let first = compose("a\nb\n", "one\n");
        assert_eq!(first, "a\nb\n# kiln: begin\none\n# kiln: end\n");
        assert_eq!(compose(&first, "two"), "a\nb\n# kiln: begin\ntwo\n# kiln: end\n");
        assert_eq!(compose(&(first + "c\n"), ""), "a\nb\nc\n");
        assert_eq!(compose("no end", "x"), "no end\n# kiln: begin\nx\n# kiln: end\n");
    }

    proptest! {
        #[test]
        fn compose_is_idempotent_and_reversible(text in "([a-z #]{0,8}\n){0,5}", block in "[a-z]{0,9}") {
            let once = compose(&text, &block);
            prop_assert_eq!(compose(&once, &block), once.clone());
            prop_assert_eq!(compose(&once, ""), text);
        }
    }
}
