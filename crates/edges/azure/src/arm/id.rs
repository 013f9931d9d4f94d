//! Resource ids.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Text that is no resource id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{input}` is no resource id: {rule}")]
pub struct BadResourceId {
    /// The refused text.
    pub input: String,
    /// The rule that it breaks.
    pub rule: &'static str,
}

/// The path of a resource, from `/subscriptions` on.
///
/// Azure gives the same id back in other letter cases, so it is compared without regard to them.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ResourceId(String);

impl ResourceId {
    /// The id as written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The last segment.
    pub fn name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or_default()
    }

    /// The value that follows a segment, such as the name after `virtualMachines`.
    pub fn value_of(&self, segment: &str) -> Option<&str> {
        let mut segments = self.0.split('/');
        segments.by_ref().find(|s| s.eq_ignore_ascii_case(segment))?;
        segments.next()
    }

    /// A resource below this one.
    pub fn child(&self, kind: &'static str, name: &str) -> Result<Self, BadResourceId> {
        Ok(Self(format!("{}/{kind}/{}", self.0, segment(name)?)))
    }

    /// An action of this resource. It is a path, not a resource of its own.
    pub(crate) fn action(&self, verb: &'static str) -> String {
        format!("{}/{verb}", self.0)
    }
}

impl TryFrom<String> for ResourceId {
    type Error = BadResourceId;

    fn try_from(input: String) -> Result<Self, BadResourceId> {
        let refuse = |rule| BadResourceId { input: input.clone(), rule };
        let rest = input.strip_prefix('/').ok_or_else(|| refuse("it starts with `/subscriptions/`"))?;
        if !rest.split('/').next().unwrap_or_default().eq_ignore_ascii_case("subscriptions") {
            return Err(refuse("it starts with `/subscriptions/`"));
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    subscription: String,
    resource_group: String,
}

impl Scope {
    /// Both names become path segments, so neither may hold what would change the path.
    pub fn new(subscription: &str, resource_group: &str) -> Result<Self, BadResourceId> {
        Ok(Self {
            subscription: segment(subscription)?.to_owned(),
            resource_group: segment(resource_group)?.to_owned(),
        })
    }

    /// The subscription.
    pub fn subscription(&self) -> &str {
        &self.subscription
    }

    /// The resource group.
    pub fn resource_group(&self) -> &str {
        &self.resource_group
    }

    /// The collection of a provider's resource type in the group.
    pub(crate) fn collection(&self, provider: &'static str, kind: &'static str) -> String {
        format!(
            "/subscriptions/{}/resourceGroups/{}/providers/{provider}/{kind}",
            self.subscription, self.resource_group
        )
    }

    /// A resource of the group.
    pub(crate) fn resource(
        &self,
        provider: &'static str,
        kind: &'static str,
        name: &str,
    ) -> Result<ResourceId, BadResourceId> {
        Ok(ResourceId(format!("{}/{}", self.collection(provider, kind), segment(name)?)))
    }

    /// Whether a resource is in the group.
    pub(crate) fn holds(&self, id: &ResourceId) -> bool {
        let is = |segment, value: &str| id.value_of(segment).is_some_and(|v| v.eq_ignore_ascii_case(value));
        is("subscriptions", &self.subscription) && is("resourceGroups", &self.resource_group)
    }
}

/// Parentheses, spaces and the like are legal in a resource group's name; what ends or climbs a path is not legal anywhere.
fn segment(text: &str) -> Result<&str, BadResourceId> {
    let bad =
        text.is_empty() || text == "." || text == ".." || text.chars().any(|c| "/\\?#%".contains(c) || c.is_control());
    if bad {
        return Err(BadResourceId { input: text.to_owned(), rule: "a part is empty or holds one of `/ \\ ? # %`" });
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_equal_in_any_letter_case() {
        let a: ResourceId = "/subscriptions/S/resourceGroups/RG/providers/Microsoft.Compute/disks/d".parse().unwrap();
        let b: ResourceId = "/SUBSCRIPTIONS/s/resourcegroups/rg/providers/microsoft.compute/DISKS/D".parse().unwrap();
        assert_eq!(a, b);
        assert_eq!(b.value_of("resourceGroups"), Some("rg"));
        assert_eq!(a.name(), "d");
    }

    #[test]
    fn a_name_cannot_climb_out_of_its_path() {
        let scope = Scope::new("s", "rg").unwrap();
        for bad in ["a/b", "..", "", "a?x=1", "a%2fb", "a\nb"] {
            assert!(scope.resource("Microsoft.Compute", "snapshots", bad).is_err(), "{bad}");
        }
        assert!(Scope::new("s", "rg/../other").is_err());
        assert!("https://evil.example/subscriptions/x".parse::<ResourceId>().is_err());
    }
}
