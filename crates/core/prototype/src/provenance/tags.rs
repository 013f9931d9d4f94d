//! Azure's rules of tags.

use kiln_types::Tags;

use crate::Error;

/// Tags that a resource may have.
pub const MAX_TAGS: usize = 50;
/// Characters of a tag's name.
pub(crate) const MAX_NAME: usize = 512;
/// Characters of a tag's value.
pub const MAX_VALUE: usize = 256;

const FORBIDDEN: &str = "<>%&\\?/";
const RESERVED: [&str; 3] = ["microsoft", "azure", "windows"];

/// Reads one `name=value` of `--tags`. The value may be empty and may hold further `=`.
pub fn parse_tag(text: &str) -> Result<(String, String), Error> {
    let (name, value) = text.split_once('=').ok_or_else(|| Error::TagForm(text.to_owned()))?;
    check_tag(name, value)?;
    Ok((name.to_owned(), value.to_owned()))
}

/// Whether Azure would take them all.
pub fn check_tags(tags: &Tags) -> Result<(), Error> {
    if tags.len() > MAX_TAGS {
        return Err(Error::TooManyTags(tags.len()));
    }
    tags.iter().try_for_each(|(name, value)| check_tag(name, value))
}

/// The tags of a person and our own. Where both name the same, whatever its case, ours stay: later runs read them.
pub fn merge_tags(theirs: &Tags, ours: &Tags) -> Result<Tags, Error> {
    let taken = |name: &str| ours.keys().any(|own| own.eq_ignore_ascii_case(name));
    let mut merged: Tags =
        theirs.iter().filter(|(name, _)| !taken(name)).map(|(name, value)| (name.clone(), value.clone())).collect();
    merged.extend(ours.iter().map(|(name, value)| (name.clone(), value.clone())));
    check_tags(&merged)?;
    Ok(merged)
}

/// As much of a text as a tag's value holds.
pub fn shorten(text: &str) -> &str {
    text.char_indices().nth(MAX_VALUE).map_or(text, |(end, _)| &text[..end])
}

fn check_tag(name: &str, value: &str) -> Result<(), Error> {
    if !(1..=MAX_NAME).contains(&name.chars().count()) {
        return Err(Error::TagNameLength(name.to_owned()));
    }
    if let Some(character) = name.chars().find(|c| FORBIDDEN.contains(*c) || c.is_control()) {
        return Err(Error::TagCharacter { name: name.to_owned(), character });
    }
    let lower = name.to_ascii_lowercase();
    if let Some(prefix) = RESERVED.into_iter().find(|prefix| lower.starts_with(prefix)) {
        return Err(Error::TagReserved { name: name.to_owned(), prefix });
    }
    match value.chars().count() {
        length if length > MAX_VALUE => Err(Error::TagValueLength { name: name.to_owned(), length }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags(pairs: &[(&str, &str)]) -> Tags {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn ours_win_whatever_the_case_of_theirs() {
        let merged =
            merge_tags(&tags(&[("builtfrom", "me"), ("team", "ml")]), &tags(&[("BuiltFrom", "node0")])).unwrap();
        assert_eq!(merged, tags(&[("BuiltFrom", "node0"), ("team", "ml")]));
    }

    #[test]
    fn a_tag_is_split_at_its_first_equals_sign() {
        assert_eq!(parse_tag("a=b=c").unwrap(), ("a".into(), "b=c".into()));
        assert_eq!(parse_tag("a=").unwrap(), ("a".into(), String::new()));
        assert_eq!(parse_tag("a"), Err(Error::TagForm("a".into())));
    }

    #[test]
    fn each_rule_of_azure_refuses_by_name() {
        let long = "v".repeat(MAX_VALUE + 1);
        assert!(matches!(parse_tag("=x"), Err(Error::TagNameLength(_))));
        assert!(matches!(parse_tag(&format!("{}=x", "n".repeat(MAX_NAME + 1))), Err(Error::TagNameLength(_))));
        assert_eq!(parse_tag("a/b=x"), Err(Error::TagCharacter { name: "a/b".into(), character: '/' }));
        assert!(matches!(parse_tag("a\n=x"), Err(Error::TagCharacter { .. })));
        assert!(matches!(parse_tag("Azure-x=y"), Err(Error::TagReserved { prefix: "azure", .. })));
        assert!(matches!(parse_tag(&format!("a={long}")), Err(Error::TagValueLength { length: 257, .. })));
    }

    #[test]
    fn more_tags_than_a_resource_has_room_for_are_refused() {
        let many: Tags = (0..MAX_TAGS).map(|n| (format!("t{n}"), String::new())).collect();
        assert!(merge_tags(&many, &Tags::new()).is_ok());
        assert_eq!(merge_tags(&many, &tags(&[("one", "more")])), Err(Error::TooManyTags(51)));
    }

    #[test]
    fn a_text_is_cut_between_characters() {
        let text = "é".repeat(MAX_VALUE + 4);
        assert_eq!(shorten(&text).chars().count(), MAX_VALUE);
        assert_eq!(shorten("short"), "short");
    }
}
