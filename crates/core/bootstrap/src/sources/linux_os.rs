//! Operating-system and LocalDNS settings of a node class.

use kiln_aks_formats::anc::SysctlConfig;
use kiln_aks_formats::karpenter::{LinuxOsConfig, LocalDns, LocalDnsZone};
use serde_json::{Map, Value};

use super::SourceError;
use crate::document::Document;
use crate::source::Source;

/// Adds `linuxOSConfig` of a class. Setting a value also sets the variable that enables it.
pub(super) fn linux_os(document: &Document, os: &LinuxOsConfig, source: &mut Source) -> Result<(), SourceError> {
    if let Some(size) = &os.swap_file_size {
        let path = "spec.linuxOSConfig.swapFileSize";
        let mebibytes = mebibytes(size).ok_or_else(|| {
            document.error_at(
                path,
                format!(
                    "invalid size `{size}`; expected a number and `K`, `M`, `G`, `Ki`, `Mi` or `Gi`, such as `1500Mi`"
                ),
            )
        })?;
        source.set("SwapFileSizeMB", mebibytes.into(), document.position(path))?;
        source.set("ShouldConfigSwapFile", (mebibytes > 0).into(), document.position(path))?;
    }
    let pages = [
        ("transparentHugePageEnabled", "THPEnabled", &os.transparent_huge_page_enabled),
        ("transparentHugePageDefrag", "THPDefrag", &os.transparent_huge_page_defrag),
    ];
    for (name, field, mode) in pages {
        if let Some(mode) = mode {
            let position = document.position(&format!("spec.linuxOSConfig.{name}"));
            source.set(field, mode.as_str().into(), position.clone())?;
            source.set("ShouldConfigTransparentHugePage", true.into(), position)?;
        }
    }
    if !os.sysctls.is_empty() {
        let path = "spec.linuxOSConfig.sysctls";
        let settings = SysctlConfig::from_class(&os.sysctls)
            .map_err(|bad| document.error_at(&format!("{path}.{}", bad.name), bad.reason))?;
        let map = settings.kernel_settings().into_iter().map(|(name, text)| (name.to_owned(), Value::from(text)));
        source.set("sysctls", Value::Object(map.collect()), document.position(path))?;
    }
    Ok(())
}

/// Adds the LocalDNS overrides of a class, one JSON string per zone.
pub(super) fn local_dns(document: &Document, dns: &LocalDns, source: &mut Source) -> Result<(), SourceError> {
    let both = [
        ("vnetDNSOverrides", "localDnsVnetOverrides", &dns.vnet_dns_overrides),
        ("kubeDNSOverrides", "localDnsKubeOverrides", &dns.kube_dns_overrides),
    ];
    for (name, field, zones) in both {
        let zone = |zone: &LocalDnsZone| {
            let json = serde_json::to_string(zone).expect("a zone serializes to JSON");
            (zone.zone.clone(), Value::from(json))
        };
        let map: Map<String, Value> = zones.iter().flatten().map(zone).collect();
        if !map.is_empty() {
            source.set(field, Value::Object(map), document.position(&format!("spec.localDNS.{name}")))?;
        }
    }
    Ok(())
}

/// Converts a quantity to whole mebibytes, rounded up.
fn mebibytes(text: &str) -> Option<i64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit: i64 = match &text[digits.len()..] {
        "" => 1,
        "k" | "K" => 1_000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        _ => return None,
    };
    let number = digits.parse::<i64>().ok().filter(|number| *number >= 0)?;
    Some(number.checked_mul(unit)?.checked_add((1 << 20) - 1)? >> 20)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::provenance::SourceKind;

    fn parse(text: &str) -> Result<Source, SourceError> {
        let document = Document::read("c.yaml", text).unwrap();
        let os: LinuxOsConfig = serde_json::from_value(document.value()["spec"]["linuxOSConfig"].clone()).unwrap();
        let mut source = Source::new(SourceKind::NodeClass);
        linux_os(&document, &os, &mut source)?;
        Ok(source)
    }

    #[test]
    fn each_setting_becomes_a_field_with_its_position() {
        let source = parse(
            "spec:\n  linuxOSConfig:\n    swapFileSize: 1500Mi\n    transparentHugePageEnabled: madvise\n    sysctls:\n      \
             vmSwappiness: 10\n      netIpv4TcpTwReuse: true\n",
        )
        .unwrap();
        let find = |name: &str| source.assignments.iter().find(|a| a.field == name).unwrap();
        assert_eq!((&find("SwapFileSizeMB").value, &find("ShouldConfigSwapFile").value), (&1500.into(), &true.into()));
        assert_eq!(find("THPEnabled").value, "madvise");
        assert_eq!(find("ShouldConfigTransparentHugePage").value, true);
        let sysctls = serde_json::json!({"net.ipv4.tcp_tw_reuse": "1", "vm.swappiness": "10"});
        assert_eq!(find("sysctls").value, sysctls);
        assert_eq!(find("sysctls").position.to_string(), "c.yaml:6 spec.linuxOSConfig.sysctls");
    }

    #[test]
    fn invalid_setting_is_reported_with_its_line() {
        let error = parse("spec:\n  linuxOSConfig:\n    sysctls:\n      vmSwappines: 1\n").unwrap_err().to_string();
        assert!(error.starts_with("c.yaml:4:20: at `spec.linuxOSConfig.sysctls.vmSwappines`: "), "{error}");
        let error = parse("spec:\n  linuxOSConfig: {swapFileSize: much}\n").unwrap_err().to_string();
        assert!(error.contains("invalid size `much`"), "{error}");
    }

    #[test]
    fn sizes_are_rounded_up_to_whole_mebibytes() {
        let sizes = [
            ("1Gi", Some(1024)),
            ("1G", Some(954)),
            ("1", Some(1)),
            ("0", Some(0)),
            ("1Ti", None),
            ("-1Mi", None),
            ("", None),
            ("99999999999Gi", None),
        ];
        for (text, size) in sizes {
            assert_eq!(mebibytes(text), size, "{text}");
        }
    }
}
