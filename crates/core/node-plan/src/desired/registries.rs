//! Mirrors and certificates of registries, one folder per registry. containerd reads them at every pull.

use std::fmt::Write as _;

use kiln_aks_formats::toml::quote;
use kiln_node_config::spec::Registry;

use super::draft::Draft;
use super::kubelet::ended;
use super::runtime::REGISTRIES;
use crate::file::DesiredFile;
use crate::layout::current;

pub(super) fn render(draft: &mut Draft<'_>) {
    for registry in &draft.spec.registries {
        let is_bad = registry.host == "." || registry.host == ".." || registry.host.contains(char::is_whitespace);
        draft.reject_if(is_bad, format!("spec.registries[{}]", registry.host), "not a host name");
        let folder = format!("{REGISTRIES}/{}", registry.host);
        let trusted = !registry.certificate_authority.is_empty();
        if trusted {
            draft.file(DesiredFile::plain(format!("{folder}/ca.crt"), ended(&registry.certificate_authority)));
        }
        let ca = trusted.then(|| current(&format!("{folder}/ca.crt")));
        draft.file(DesiredFile::plain(format!("{folder}/hosts.toml"), hosts(registry, ca.as_deref())));
    }
}

fn hosts(registry: &Registry, ca: Option<&str>) -> String {
    let mut out = String::new();
    if let Some(server) = server(registry) {
        let _ = writeln!(out, "server = {}", quote(&server));
    }
    // The certificate authority applies to the mirrors, or to the registry itself if it has none.
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

/// The server that containerd tries after the mirrors. By default that is the registry itself; without fallback it is the last mirror,
/// because the field cannot be empty.
fn server(registry: &Registry) -> Option<String> {
    match (registry.fall_back, registry.mirrors.last()) {
        (Some(false), Some(mirror)) => Some(mirror.trim_end_matches('/').to_owned()),
        _ if registry.host == "_default" => None,
        // docker.io itself serves no images.
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
    fn mirrors_are_tried_in_order_before_the_registry() {
        let text = hosts(&registry("docker.io", None), Some("/x/ca.crt"));
        let wanted = "server = \"https://registry-1.docker.io\"\n\
            [host.\"https://a.example\"]\ncapabilities = [\"pull\", \"resolve\"]\nca = \"/x/ca.crt\"\n\
            [host.\"http://b.example:5000\"]\ncapabilities = [\"pull\", \"resolve\"]\nca = \"/x/ca.crt\"\n";
        assert_eq!(text, wanted);
    }

    #[test]
    fn without_fallback_the_registry_is_not_used() {
        let text = hosts(&registry("quay.io", Some(false)), None);
        assert!(text.starts_with("server = \"http://b.example:5000\"\n") && !text.contains("quay.io"), "{text}");
        assert!(!hosts(&registry("_default", None), None).contains("server"), "each registry has its own server");
    }
}
