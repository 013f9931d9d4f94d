//! Configuration of LocalDNS, the DNS server on the node.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::config::Configuration;
use super::system::{LocalDnsOverrides, LocalDnsProfile};

/// Listeners for queries of the node (and pods that use its resolver), and for queries of pods that use cluster DNS.
const NODE_LISTENER: &str = "169.254.10.10";
const CLUSTER_LISTENER: &str = "169.254.10.11";

/// Azure's resolver, available in every virtual network.
const AZURE_DNS: &str = "168.63.129.16";

/// Limits of a profile without limits.
const DEFAULT_MILLI_CORES: i32 = 2000;
const DEFAULT_MEMORY_MB: i32 = 128;

impl Configuration {
    fn enabled_local_dns(&self) -> Option<&LocalDnsProfile> {
        self.local_dns_profile.as_ref().filter(|profile| profile.enable_local_dns)
    }

    /// `SHOULD_ENABLE_LOCALDNS`.
    pub fn enables_local_dns(&self) -> bool {
        self.enabled_local_dns().is_some()
    }

    /// `SHOULD_ENABLE_HOSTS_PLUGIN`.
    pub fn enables_hosts_plugin(&self) -> bool {
        self.enabled_local_dns().is_some_and(|profile| profile.enable_hosts_plugin)
    }

    /// `LOCALDNS_CPU_LIMIT`, in percent of one CPU.
    pub fn local_dns_cpu_limit(&self) -> String {
        let milli = self
            .enabled_local_dns()
            .and_then(|profile| profile.cpu_limit_in_milli_cores)
            .unwrap_or(DEFAULT_MILLI_CORES);
        format!("{:.1}%", f64::from(milli) / 10.0)
    }

    /// `LOCALDNS_MEMORY_LIMIT`.
    pub fn local_dns_memory_limit(&self) -> String {
        let megabytes =
            self.enabled_local_dns().and_then(|profile| profile.memory_limit_in_mb).unwrap_or(DEFAULT_MEMORY_MB);
        format!("{megabytes}M")
    }

    /// `LOCALDNS_CRITICAL_FQDNS`.
    pub fn local_dns_critical_fqdns(&self) -> String {
        self.enabled_local_dns().map_or_else(String::new, |profile| profile.critical_fqdns.join(","))
    }

    /// `LOCALDNS_HOSTS_PLUGIN_REFRESH_INTERVAL_IN_SECONDS`; if empty, the node's default applies.
    pub fn local_dns_refresh_interval(&self) -> String {
        let interval = self.enabled_local_dns().and_then(|profile| profile.hosts_plugin_refresh_interval_in_seconds);
        interval.map_or_else(String::new, |seconds| seconds.to_string())
    }

    fn cluster_dns(&self) -> &str {
        let network = self.cluster_config.as_ref().and_then(|cluster| cluster.cluster_network_config.as_ref());
        network.map(|network| network.core_dns_service_ip.as_str()).filter(|ip| !ip.is_empty()).unwrap_or("10.0.0.10")
    }
}

/// Renders the Corefile. It is empty if LocalDNS is disabled.
pub fn corefile(config: &Configuration, hosts_plugin: bool) -> String {
    let Some(profile) = config.enabled_local_dns() else { return String::new() };
    let mut out = String::new();
    let _ =
        writeln!(out, "health-check.localdns.local:53 {{\n    bind {NODE_LISTENER} {CLUSTER_LISTENER}\n    whoami\n}}");
    let cluster_dns = config.cluster_dns();
    for (zones, listener) in
        [(&profile.vnet_dns_overrides, NODE_LISTENER), (&profile.kube_dns_overrides, CLUSTER_LISTENER)]
    {
        server_blocks(&mut out, zones, listener, cluster_dns, hosts_plugin);
    }
    out
}

fn server_blocks(
    out: &mut String,
    zones: &BTreeMap<String, LocalDnsOverrides>,
    listener: &str,
    cluster_dns: &str,
    hosts_plugin: bool,
) {
    for (zone, overrides) in zones {
        let _ = writeln!(out, "{zone}:53 {{");
        out.push_str(if overrides.query_logging == "Log" { "    log\n" } else { "    errors\n" });
        let _ = writeln!(out, "    bind {listener}");
        if hosts_plugin && zone == "." && listener == NODE_LISTENER {
            out.push_str("    hosts /etc/localdns/hosts {\n        fallthrough\n    }\n");
        }
        // Only cluster DNS resolves cluster names, so the profile's destination is ignored for them.
        let to_cluster =
            overrides.forward_destination == "ClusterCoreDNS" || zone.trim_end_matches('.').ends_with("cluster.local");
        forward(out, overrides, if to_cluster { cluster_dns } else { AZURE_DNS });
        if zone == "." {
            let _ = writeln!(out, "    ready {listener}:8181");
        }
        cache(out, overrides);
        out.push_str("    loop\n    nsid localdns\n    prometheus :9253\n}\n");
    }
}

fn forward(out: &mut String, overrides: &LocalDnsOverrides, upstream: &str) {
    let _ = writeln!(out, "    forward . {upstream} {{");
    if overrides.protocol == "ForceTCP" {
        out.push_str("        force_tcp\n");
    }
    let policy = match overrides.forward_policy.as_str() {
        "RoundRobin" => "round_robin",
        "Random" => "random",
        _ => "sequential",
    };
    let _ = writeln!(out, "        policy {policy}");
    if let Some(max) = overrides.max_concurrent {
        let _ = writeln!(out, "        max_concurrent {max}");
    }
    let check = overrides.health_check.clone().unwrap_or_default();
    if let Some(duration) = check.duration.filter(|duration| !duration.is_empty()) {
        let _ = write!(out, "        health_check {duration}");
        if check.no_rec == Some(true) {
            out.push_str(" no_rec");
        }
        if let Some(domain) = check.domain.filter(|domain| !domain.is_empty()) {
            let _ = write!(out, " domain {domain}");
        }
        out.push('\n');
    }
    if overrides.failfast_all_unhealthy_upstreams == Some(true) {
        out.push_str("        failfast_all_unhealthy_upstreams\n");
    }
    out.push_str("    }\n");
}

fn cache(out: &mut String, overrides: &LocalDnsOverrides) {
    let seconds = |value: Option<i32>| value.map_or_else(String::new, |seconds| format!(" {seconds}s"));
    let _ = writeln!(out, "    cache{} {{", seconds(overrides.cache_duration_in_seconds));
    let mode = match overrides.serve_stale.as_str() {
        "Verify" => Some("verify"),
        "Immediate" => Some("immediate"),
        _ => None,
    };
    if let Some(mode) = mode {
        let _ = writeln!(out, "        serve_stale{} {mode}", seconds(overrides.serve_stale_duration_in_seconds));
    }
    out.push_str("        servfail 0\n    }\n");
}

#[cfg(test)]
mod tests {
    use super::super::document::parse;
    use super::*;

    fn config(root: &str) -> Configuration {
        parse(
            format!(
                "{{\"local_dns_profile\": {{\"enable_local_dns\": true, \"vnet_dns_overrides\": {{\".\": {root}}}}}}}"
            )
            .as_bytes(),
        )
        .config
    }

    #[test]
    fn corefile_is_empty_without_local_dns() {
        assert_eq!(corefile(&Configuration::default(), true), "");
    }

    #[test]
    fn health_check_requires_a_duration() {
        let with = corefile(&config(r#"{"health_check": {"duration": "1s", "no_rec": true, "domain": "h."}}"#), false);
        assert!(with.contains("health_check 1s no_rec domain h.\n"));
        let without = corefile(&config(r#"{"health_check": {"no_rec": true}}"#), false);
        assert!(!without.contains("health_check"));
    }

    #[test]
    fn cluster_names_are_forwarded_to_cluster_dns() {
        let zones = r#"{"local_dns_profile": {"enable_local_dns": true, "kube_dns_overrides": {"cluster.local": {"forward_destination": "VnetDNS"}}}}"#;
        assert!(corefile(&parse(zones.as_bytes()).config, false).contains("forward . 10.0.0.10 {"));
    }

    #[test]
    fn limits_have_defaults() {
        let config = config("{}");
        assert_eq!((config.local_dns_cpu_limit(), config.local_dns_memory_limit()), ("200.0%".into(), "128M".into()));
    }
}
