//! Kiln's part of a file that belongs to somebody else.

const BEGIN: &str = "# kiln: begin";
const END: &str = "# kiln: end";

/// The text with kiln's part in it, at its end; without any where the part is empty. What others wrote stays as it is.
pub fn compose(text: &str, part: &str) -> String {
    let mut out = String::with_capacity(text.len() + part.len());
    let mut inside = false;
    for line in text.split_inclusive('\n') {
        match line.trim_end() {
            BEGIN => inside = true,
            END if inside => inside = false,
            _ if inside => {}
            _ => out.push_str(line),
        }
    }
    if !part.is_empty() {
        if !out.is_empty() && !out.ends_with('\n') {
            out.push('\n');
        }
        for line in [BEGIN, part.trim_end(), END] {
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
    fn what_others_wrote_stays_and_ours_is_replaced() {
        let first = compose("a\nb\n", "one\n");
        assert_eq!(first, "a\nb\n# kiln: begin\none\n# kiln: end\n");
        assert_eq!(compose(&first, "two"), "a\nb\n# kiln: begin\ntwo\n# kiln: end\n");
        assert_eq!(compose(&(first + "c\n"), ""), "a\nb\nc\n");
        assert_eq!(compose("no end", "x"), "no end\n# kiln: begin\nx\n# kiln: end\n");
    }

    proptest! {
        #[test]
        fn putting_a_part_in_twice_is_putting_it_in_once(text in "([a-z #]{0,8}\n){0,5}", part in "[a-z]{0,9}") {
            let once = compose(&text, &part);
            prop_assert_eq!(compose(&once, &part), once.clone());
            prop_assert_eq!(compose(&once, ""), text);
        }
    }
}
