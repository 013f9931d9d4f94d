//! Path templates, which map URLs to operations.

use percent_encoding::percent_decode_str;

/// A path of fixed segments (compared case-insensitively), `{name}` (one segment) and `{name*}` (one or more).
#[derive(Clone, Debug)]
pub(super) struct Template {
    segments: Vec<Segment>,
}

#[derive(Clone, Debug, PartialEq)]
enum Segment {
    Many(String),
    One(String),
    Fixed(String),
}

/// The parts of a URL that specifications describe.
pub(super) struct Url<'u> {
    pub(super) path: &'u str,
    pub(super) query: Vec<(String, String)>,
}

impl Template {
    /// `spans` returns whether a parameter may match more than one segment.
    pub(super) fn parse(text: &str, spans: impl Fn(&str) -> bool) -> Self {
        let segments = segments(text)
            .map(|segment| {
                let name = segment.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
                match name {
                    None => Segment::Fixed(segment.to_owned()),
                    Some(name) => match name.strip_suffix('*') {
                        Some(name) => Segment::Many(name.to_owned()),
                        None if spans(name) => Segment::Many(name.to_owned()),
                        None => Segment::One(name.to_owned()),
                    },
                }
            })
            .collect();
        Self { segments }
    }

    /// The percent-decoded values of the parameters, if the path matches.
    pub(super) fn captures(&self, path: &str) -> Option<Vec<(&str, String)>> {
        let path: Vec<&str> = segments(path).collect();
        let mut captured = Vec::new();
        matches(&self.segments, &path, &mut captured).then_some(captured)
    }

    /// Whether the template, such as `/{resourceId}`, matches any path of any provider. With such a route no path would be unknown.
    pub(super) fn is_generic(&self) -> bool {
        let last_span = self.segments.iter().rposition(|segment| matches!(segment, Segment::Many(_)));
        last_span.is_some_and(|last| !self.segments[last..].iter().any(|segment| matches!(segment, Segment::Fixed(_))))
    }

    /// The sort key of templates. If several match a path, the one with the leftmost fixed segment wins.
    pub(super) fn precision(&self) -> Vec<u8> {
        self.segments
            .iter()
            .map(|segment| match segment {
                Segment::Many(_) => 0,
                Segment::One(_) => 1,
                Segment::Fixed(_) => 2,
            })
            .collect()
    }
}

impl<'u> Url<'u> {
    /// Parses an absolute URL, or path and query.
    pub(super) fn parse(text: &'u str) -> Self {
        let rooted = match text.split_once("://") {
            Some((scheme, rest)) if !scheme.contains('/') => rest.find('/').map_or("", |slash| &rest[slash..]),
            _ => text,
        };
        let rooted = rooted.split('#').next().unwrap_or_default();
        let (path, query) = rooted.split_once('?').unwrap_or((rooted, ""));
        let query = query
            .split('&')
            .filter(|pair| !pair.is_empty())
            .map(|pair| {
                let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
                (decode(&name.replace('+', " ")), decode(&value.replace('+', " ")))
            })
            .collect();
        Self { path, query }
    }
}

fn segments(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|segment| !segment.is_empty())
}

fn matches<'t>(template: &'t [Segment], path: &[&str], captured: &mut Vec<(&'t str, String)>) -> bool {
    let Some((segment, rest)) = template.split_first() else {
        return path.is_empty();
    };
    let longest = match segment {
        Segment::Many(_) => path.len(),
        Segment::One(_) | Segment::Fixed(_) => path.len().min(1),
    };
    (1..=longest).any(|taken| {
        let depth = captured.len();
        match segment {
            Segment::Fixed(text) if !text.eq_ignore_ascii_case(path[0]) => return false,
            Segment::Fixed(_) => {}
            Segment::One(name) | Segment::Many(name) => captured.push((name, decode(&path[..taken].join("/")))),
        }
        let fits = matches(rest, &path[taken..], captured);
        if !fits {
            captured.truncate(depth);
        }
        fits
    })
}

fn decode(text: &str) -> String {
    percent_decode_str(text).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template(text: &str) -> Template {
        Template::parse(text, |_| false)
    }

    #[test]
    fn fixed_segments_are_case_insensitive_and_parameters_keep_their_case() {
        let snapshot = template("/resourceGroups/{group}/snapshots/{name}");
        let captured = snapshot.captures("/resourcegroups/Rg1/SNAPSHOTS/s%20A/");
        assert_eq!(captured, Some(vec![("group", "Rg1".to_owned()), ("name", "s A".to_owned())]));
    }

    #[test]
    fn shorter_and_longer_paths_do_not_match() {
        let snapshot = template("/snapshots/{name}");
        assert_eq!(snapshot.captures("/snapshots"), None);
        assert_eq!(snapshot.captures("/snapshots/a/b"), None);
    }

    #[test]
    fn starred_parameter_matches_several_segments() {
        let tags = template("/{scope*}/providers/tags/default");
        let captured = tags.captures("/subscriptions/1/providers/x/providers/tags/default");
        assert_eq!(captured, Some(vec![("scope", "subscriptions/1/providers/x".to_owned())]));
    }

    #[test]
    fn template_that_ends_in_a_starred_parameter_is_generic() {
        assert!(template("/{id*}").is_generic());
        assert!(template("/providers/{namespace}/{parent*}/{type}").is_generic());
        assert!(!template("/{scope*}/tags").is_generic());
        assert!(!template("/{a}/{b}").is_generic());
    }

    #[test]
    fn an_absolute_url_is_reduced_to_path_and_decoded_query() {
        let url = Url::parse("https://host:1/a/b?%24expand=user+data&x");
        assert_eq!(url.path, "/a/b");
        let expected = [("$expand", "user data"), ("x", "")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(url.query, expected);
    }

    #[test]
    fn url_in_the_query_does_not_make_the_url_absolute() {
        assert_eq!(Url::parse("/token?resource=https://host/").path, "/token");
    }
}
