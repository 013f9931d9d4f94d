//! Resource ids.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A text that is not a resource id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{input}` is not a resource id: {rule}")]
pub struct BadResourceId {
    pub input: String,
    pub rule: &'static str,
}

/// The path of a resource, starting with `/subscriptions`.
///
/// Azure returns ids with varying letter case, so comparison ignores case.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ResourceId(String);

impl ResourceId {
    /// Returns the id as written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the last segment.
    pub fn name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or_default()
    }

    /// Returns the name of a type, such as the one after `virtualMachines`. Types and names alternate, and a name can be that of a type.
    pub fn value_of(&self, segment: &str) -> Option<&str> {
        let mut segments = self.0.split('/').skip(1);
        while let Some(found) = segments.next() {
            let value = segments.next();
            if found.eq_ignore_ascii_case(segment) {
                return value;
            }
        }
        None
    }

    /// Returns the id of a child resource.
    pub fn child(&self, kind: &'static str, name: &str) -> Result<Self, BadResourceId> {
        Ok(Self(format!("{}/{kind}/{}", self.0, segment(name)?)))
    }

    /// Returns the path of an action on this resource.
    pub(crate) fn action(&self, verb: &'static str) -> String {
        format!("{}/{verb}", self.0)
    }
}

impl TryFrom<String> for ResourceId {
    type Error = BadResourceId;

    fn try_from(input: String) -> Result<Self, BadResourceId> {
        let refuse = |rule| BadResourceId { input: input.clone(), rule };
        let rest = input.strip_prefix('/').ok_or_else(|| refuse("it must start with `/subscriptions/`"))?;
        if !rest.split('/').next().unwrap_or_default().eq_ignore_ascii_case("subscriptions") {
            return Err(refuse("it must start with `/subscriptions/`"));
        }
        for part in rest.split('/') {
            segment(part).map_err(|bad| refuse(bad.rule))?;
        }
        Ok(Self(input))
    }
}

impl FromStr for ResourceId {
    type Err = BadResourceId;

    fn from_str(input: &str) -> Result<Self, BadResourceId> {
        Self::try_from(input.to_owned())
    }
}

impl From<ResourceId> for String {
    fn from(id: ResourceId) -> Self {
        id.0
    }
}

impl fmt::Display for ResourceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl PartialEq for ResourceId {
    fn eq(&self, other: &Self) -> bool {
        self.0.eq_ignore_ascii_case(&other.0)
    }
}

impl Eq for ResourceId {}

/// The subscription and resource group that a client works in.
#[derive(Debug, Clone)]
pub struct Scope {
    subscription: String,
    resource_group: String,
}

impl Scope {
    /// Validates both names, because they become path segments.
    pub fn new(subscription: &str, resource_group: &str) -> Result<Self, BadResourceId> {
        Ok(Self {
            subscription: segment(subscription)?.to_owned(),
            resource_group: segment(resource_group)?.to_owned(),
        })
    }

    /// Returns the subscription id.
    pub fn subscription(&self) -> &str {
        &self.subscription
    }

    /// Returns the name of the resource group.
    pub fn resource_group(&self) -> &str {
        &self.resource_group
    }

    /// Returns the id of the resource group.
    pub(crate) fn resource_group_id(&self) -> String {
        format!("/subscriptions/{}/resourceGroups/{}", self.subscription, self.resource_group)
    }

    /// Returns the path of all resources of a type in the resource group.
    pub(crate) fn collection(&self, provider: &'static str, kind: &'static str) -> String {
        format!("{}/providers/{provider}/{kind}", self.resource_group_id())
    }

    /// Returns the id of a resource in the resource group.
    pub(crate) fn resource(
        &self,
        provider: &'static str,
        kind: &'static str,
        name: &str,
    ) -> Result<ResourceId, BadResourceId> {
        Ok(ResourceId(format!("{}/{}", self.collection(provider, kind), segment(name)?)))
    }

    /// Returns whether a resource is in the resource group.
    pub(crate) fn contains(&self, id: &ResourceId) -> bool {
        let is = |segment, value: &str| id.value_of(segment).is_some_and(|v| v.eq_ignore_ascii_case(value));
        is("subscriptions", &self.subscription) && is("resourceGroups", &self.resource_group)
    }
}

impl PartialEq for Scope {
    fn eq(&self, other: &Self) -> bool {
        self.subscription.eq_ignore_ascii_case(&other.subscription)
            && self.resource_group.eq_ignore_ascii_case(&other.resource_group)
    }
}

impl Eq for Scope {}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.subscription, self.resource_group)
    }
}

/// Validates a path segment. Parentheses, spaces and the like are legal in the name of a resource group; characters that end or escape the
/// segment are not.
fn segment(text: &str) -> Result<&str, BadResourceId> {
    let bad =
        text.is_empty() || text == "." || text == ".." || text.chars().any(|c| "/\\?#%".contains(c) || c.is_control());
    if bad {
        return Err(BadResourceId {
            input: text.to_owned(),
            rule: "a segment is empty or contains one of `/ \\ ? # %`",
        });
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_compared_case_insensitively() {
        let a: ResourceId = "/subscriptions/S/resourceGroups/RG/providers/Microsoft.Compute/disks/d".parse().unwrap();
        let b: ResourceId = "/SUBSCRIPTIONS/s/resourcegroups/rg/providers/microsoft.compute/DISKS/D".parse().unwrap();
        assert_eq!(a, b);
        assert_eq!(b.value_of("resourceGroups"), Some("rg"));
        let named: ResourceId =
            "/subscriptions/s/resourceGroups/images/providers/Microsoft.Compute/galleries/g/images/i".parse().unwrap();
        assert_eq!(named.value_of("images"), Some("i"), "not the resource group of that name");
        assert_eq!(a.name(), "d");
    }

    #[test]
    fn names_cannot_escape_their_path_segment() {
        let scope = Scope::new("s", "rg").unwrap();
        for bad in ["a/b", "..", "", "a?x=1", "a%2fb", "a\nb"] {
            assert!(scope.resource("Microsoft.Compute", "snapshots", bad).is_err(), "{bad}");
        }
        assert!(Scope::new("s", "rg/../other").is_err());
        assert!("https://evil.example/subscriptions/x".parse::<ResourceId>().is_err());
    }
}
