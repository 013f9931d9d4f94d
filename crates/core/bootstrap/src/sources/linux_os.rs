//! What a class says of the system and of the node's own DNS server.

use kiln_aks_formats::anc::SysctlConfig;
use kiln_aks_formats::karpenter::{LinuxOsConfig, LocalDns, LocalDnsZone};
use serde_json::{Map, Value};

use super::SourceError;
use crate::document::Document;
use crate::layer::Layer;

/// Adds what a class says of the system. The variables that switch a setting on follow from its being there.
pub(super) fn linux_os(document: &Document, os: &LinuxOsConfig, layer: &mut Layer) -> Result<(), SourceError> {
    if let Some(size) = &os.swap_file_size {
        let path = "spec.linuxOSConfig.swapFileSize";
        let mebibytes = mebibytes(size).ok_or_else(|| {
            document.wrong(path, format!("`{size}` is no size: a number and K, M, G, Ki, Mi or Gi, `1500Mi`"))
        })?;
        layer.set("SwapFileSizeMB", mebibytes.into(), document.place(path))?;
        layer.set("ShouldConfigSwapFile", (mebibytes > 0).into(), document.place(path))?;
    }
    let pages = [
        ("transparentHugePageEnabled", "THPEnabled", &os.transparent_huge_page_enabled),
        ("transparentHugePageDefrag", "THPDefrag", &os.transparent_huge_page_defrag),
    ];
    for (name, field, word) in pages {
        if let Some(word) = word {
            let place = document.place(&format!("spec.linuxOSConfig.{name}"));
            layer.set(field, word.as_str().into(), place.clone())?;
            layer.set("ShouldConfigTransparentHugePage", true.into(), place)?;
        }
    }
    if !os.sysctls.is_empty() {
        let path = "spec.linuxOSConfig.sysctls";
        let settings = SysctlConfig::from_class(&os.sysctls)
            .map_err(|bad| document.wrong(&format!("{path}.{}", bad.name), bad.reason))?;
        let map = settings.asked().into_iter().map(|(name, text)| (name.to_owned(), Value::from(text)));
        layer.set("sysctls", Value::Object(map.collect()), document.place(path))?;
    }
    Ok(())
}

/// Adds how the node's own DNS server answers: each zone as the class describes it.
pub(super) fn local_dns(document: &Document, dns: &LocalDns, layer: &mut Layer) -> Result<(), SourceError> {
    let both = [
        ("vnetDNSOverrides", "localDnsVnetOverrides", &dns.vnet_dns_overrides),
        ("kubeDNSOverrides", "localDnsKubeOverrides", &dns.kube_dns_overrides),
    ];
    for (name, field, zones) in both {
        let zone = |zone: &LocalDnsZone| {
            let said = serde_json::to_string(zone).expect("texts for names");
            (zone.zone.clone(), Value::from(said))
        };
        let map: Map<String, Value> = zones.iter().flatten().map(zone).collect();
        if !map.is_empty() {
            layer.set(field, Value::Object(map), document.place(&format!("spec.localDNS.{name}")))?;
        }
    }
    Ok(())
}

/// A quantity as whole mebibytes, rounded up.
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
    use crate::kind::Kind;

    fn said(text: &str) -> Result<Layer, SourceError> {
        let document = Document::read("c.yaml", text).unwrap();
        let os: LinuxOsConfig = serde_json::from_value(document.value()["spec"]["linuxOSConfig"].clone()).unwrap();
        let mut layer = Layer::new(Kind::NodeClass);
        linux_os(&document, &os, &mut layer)?;
        Ok(layer)
    }

    #[test]
    fn each_setting_becomes_a_field_with_its_place() {
        let layer = said(
            "spec:\n  linuxOSConfig:\n    swapFileSize: 1500Mi\n    transparentHugePageEnabled: madvise\n    sysctls:\n      \
             vmSwappiness: 10\n      netIpv4TcpTwReuse: true\n",
        )
        .unwrap();
        let find = |name: &str| layer.assignments.iter().find(|a| a.field == name).unwrap();
        assert_eq!((&find("SwapFileSizeMB").value, &find("ShouldConfigSwapFile").value), (&1500.into(), &true.into()));
        assert_eq!(find("THPEnabled").value, "madvise");
        assert_eq!(find("ShouldConfigTransparentHugePage").value, true);
        let sysctls = serde_json::json!({"net.ipv4.tcp_tw_reuse": "1", "vm.swappiness": "10"});
        assert_eq!(find("sysctls").value, sysctls);
        assert_eq!(find("sysctls").place.to_string(), "c.yaml:6 spec.linuxOSConfig.sysctls");
    }

    #[test]
    fn a_setting_that_is_none_is_named_by_its_line() {
        let error = said("spec:\n  linuxOSConfig:\n    sysctls:\n      vmSwappines: 1\n").unwrap_err().to_string();
        assert!(error.starts_with("c.yaml:4:20: at `spec.linuxOSConfig.sysctls.vmSwappines`: "), "{error}");
        let error = said("spec:\n  linuxOSConfig: {swapFileSize: much}\n").unwrap_err().to_string();
        assert!(error.contains("`much` is no size"), "{error}");
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
