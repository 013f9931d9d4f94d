//! Registries that are reached in another way, one folder each. The runtime reads them at every pull.

use std::fmt::Write as _;

use kiln_aks_formats::toml::quote;
use kiln_node_config::spec::Registry;

use super::draft::Draft;
use super::kubelet::ended;
use super::runtime::REGISTRIES;
use crate::artifact::Artifact;
use crate::layout::current;

pub(super) fn render(draft: &mut Draft<'_>) {
    for registry in &draft.spec.registries {
        let odd = registry.host == "." || registry.host == ".." || registry.host.contains(char::is_whitespace);
        draft.unfit_when(odd, format!("spec.registries[{}]", registry.host), "a host is needed");
        let folder = format!("{REGISTRIES}/{}", registry.host);
        let trusted = !registry.certificate_authority.is_empty();
        if trusted {
            draft.file(Artifact::plain(format!("{folder}/ca.crt"), ended(&registry.certificate_authority)));
        }
        let ca = trusted.then(|| current(&format!("{folder}/ca.crt")));
        draft.file(Artifact::plain(format!("{folder}/hosts.toml"), hosts(registry, ca.as_deref())));
    }
}

fn hosts(registry: &Registry, ca: Option<&str>) -> String {
    let mut out = String::new();
    if let Some(server) = server(registry) {
        let _ = writeln!(out, "server = {}", quote(&server));
    }
    // What is trusted here is trusted for the mirrors, or for the registry itself where it has none.
    if (registry.mirrors.is_empty() || registry.fall_back == Some(false))
        && let Some(ca) = ca
    {
        let _ = writeln!(out, "ca = {}", quote(ca));
    }
    for mirror in &registry.mirrors {
        let _ = writeln!(out, "[host.{}]\ncapabilities = [\"pull\", \"resolve\"]", quote(mirror.trim_end_matches('/')));
        if let Some(ca) = ca {
            let _ = writeln!(out, "ca = {}", quote(ca));
        }
    }
    out
}

/// Where the runtime asks when no mirror answers. It asks the registry itself where nothing is said; where that must not be, the last
/// mirror is asked again.
fn server(registry: &Registry) -> Option<String> {
    match (registry.fall_back, registry.mirrors.last()) {
        (Some(false), Some(mirror)) => Some(mirror.trim_end_matches('/').to_owned()),
        _ if registry.host == "_default" => None,
        // Its own host answers web pages, not images.
        _ if registry.host == "docker.io" => Some("https://registry-1.docker.io".to_owned()),
        _ => Some(format!("https://{}", registry.host)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registry(host: &str, fall_back: Option<bool>) -> Registry {
        let mirrors = vec!["https://a.example/".to_owned(), "http://b.example:5000".to_owned()];
        Registry { host: host.to_owned(), mirrors, fall_back, ..Registry::default() }
    }

    #[test]
    fn mirrors_are_asked_in_order_and_then_the_registry() {
        let text = hosts(&registry("docker.io", None), Some("/x/ca.crt"));
        let wanted = "server = \"https://registry-1.docker.io\"\n\
            [host.\"https://a.example\"]\ncapabilities = [\"pull\", \"resolve\"]\nca = \"/x/ca.crt\"\n\
            [host.\"http://b.example:5000\"]\ncapabilities = [\"pull\", \"resolve\"]\nca = \"/x/ca.crt\"\n";
        assert_eq!(text, wanted);
    }

    #[test]
    fn a_registry_that_must_not_be_asked_is_not() {
        let text = hosts(&registry("quay.io", Some(false)), None);
        assert!(text.starts_with("server = \"http://b.example:5000\"\n") && !text.contains("quay.io"), "{text}");
        assert!(!hosts(&registry("_default", None), None).contains("server"), "each has its own");
    }
}
