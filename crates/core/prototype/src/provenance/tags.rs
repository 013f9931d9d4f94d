//! Azure's rules for tags.

use kiln_types::Tags;

use crate::Error;

/// Tags per resource.
pub const MAX_TAGS: usize = 50;
/// Characters in a tag's name.
pub(crate) const MAX_NAME: usize = 512;
/// Characters in a tag's value.
pub const MAX_VALUE: usize = 256;

const FORBIDDEN: &str = "<>%&\\?/";
const RESERVED: [&str; 3] = ["microsoft", "azure", "windows"];

/// Parses a `name=value` of `--tags`. The value may be empty and may contain `=`.
pub fn parse_tag(text: &str) -> Result<(String, String), Error> {
    let (name, value) = text.split_once('=').ok_or_else(|| Error::TagForm(text.to_owned()))?;
    check_tag(name, value)?;
    Ok((name.to_owned(), value.to_owned()))
}

/// Checks that Azure accepts the tags.
pub fn check_tags(tags: &Tags) -> Result<(), Error> {
    if tags.len() > MAX_TAGS {
        return Err(Error::TooManyTags(tags.len()));
    }
    tags.iter().try_for_each(|(name, value)| check_tag(name, value))
}

/// Merges the user's tags with kiln's. Where both have a name, compared without case, kiln's value is used, because later runs read it.
pub fn merge_tags(users: &Tags, own: &Tags) -> Result<Tags, Error> {
    let taken = |name: &str| own.keys().any(|key| key.eq_ignore_ascii_case(name));
    let mut merged: Tags =
        users.iter().filter(|(name, _)| !taken(name)).map(|(name, value)| (name.clone(), value.clone())).collect();
    merged.extend(own.iter().map(|(name, value)| (name.clone(), value.clone())));
    check_tags(&merged)?;
    Ok(merged)
}

/// The user's tags for a gallery, an image definition or a canary. Names that kiln reads there are left out.
pub fn users_tags(users: &Tags) -> Tags {
    let is_kilns = |name: &str| name.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("kiln-"));
    users.iter().filter(|(name, _)| !is_kilns(name)).map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// As much of a text as a tag's value has room for.
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
    fn kilns_tags_override_the_users_without_case() {
        let merged =
            merge_tags(&tags(&[("builtfrom", "me"), ("team", "ml")]), &tags(&[("BuiltFrom", "node0")])).unwrap();
        assert_eq!(merged, tags(&[("BuiltFrom", "node0"), ("team", "ml")]));
    }

    #[test]
    fn users_tags_cannot_pause_a_pool() {
        let users = tags(&[("costCenter", "42"), ("Kiln-paused", "x"), ("kiln-canary-of", "other"), ("kiln", "y")]);
        assert_eq!(users_tags(&users), tags(&[("costCenter", "42"), ("kiln", "y")]));
    }

    #[test]
    fn tag_is_split_at_the_first_equals_sign() {
        assert_eq!(parse_tag("a=b=c").unwrap(), ("a".into(), "b=c".into()));
        assert_eq!(parse_tag("a=").unwrap(), ("a".into(), String::new()));
        assert_eq!(parse_tag("a"), Err(Error::TagForm("a".into())));
    }

    #[test]
    fn each_rule_of_azure_is_checked() {
        let long = "v".repeat(MAX_VALUE + 1);
        assert!(matches!(parse_tag("=x"), Err(Error::TagNameLength(_))));
        assert!(matches!(parse_tag(&format!("{}=x", "n".repeat(MAX_NAME + 1))), Err(Error::TagNameLength(_))));
        assert_eq!(parse_tag("a/b=x"), Err(Error::TagCharacter { name: "a/b".into(), character: '/' }));
        assert!(matches!(parse_tag("a\n=x"), Err(Error::TagCharacter { .. })));
        assert!(matches!(parse_tag("Azure-x=y"), Err(Error::TagReserved { prefix: "azure", .. })));
        assert!(matches!(parse_tag(&format!("a={long}")), Err(Error::TagValueLength { length: 257, .. })));
    }

    #[test]
    fn too_many_tags_are_rejected() {
        let many: Tags = (0..MAX_TAGS).map(|n| (format!("t{n}"), String::new())).collect();
        assert!(merge_tags(&many, &Tags::new()).is_ok());
        assert_eq!(merge_tags(&many, &tags(&[("one", "more")])), Err(Error::TooManyTags(51)));
    }

    #[test]
    fn text_is_cut_between_characters() {
        let text = "é".repeat(MAX_VALUE + 4);
        assert_eq!(shorten(&text).chars().count(), MAX_VALUE);
        assert_eq!(shorten("short"), "short");
    }
}
