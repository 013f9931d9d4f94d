//! Documents with arbitrary values in any field are rejected, or rendered without injecting anything into other files or settings.

use kiln_node_config::spec::Spec;
use kiln_node_config::{FieldType, NodeConfig, Shape};
use kiln_node_plan::{Desired, FileContent, Plan, layout};
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::Union;
use serde_json::{Map, Value, json};

use crate::support::{Machine, PEM, facts};

/// Texts that are valid in some fields and harmful in others.
const TEXTS: [&str; 30] = [
    "",
    "a",
    "x.service",
    "/mnt",
    "/etc/motd",
    "1",
    "0644",
    "10.0.0.1",
    "https://a.example",
    "docker.io",
    "UTC",
    "vm.swappiness",
    "a b",
    "a\nb",
    "a\n[Service]\nExecStart=/bin/sh",
    "\"",
    "'",
    "\\",
    "$(reboot)",
    "`id`",
    "../../etc/shadow",
    "/etc/../shadow",
    "/etc/kiln/current/x",
    "a=b",
    "a:b",
    "#",
    "\t",
    "ü",
    "-x",
    "LimitNOFILE",
];

fn text() -> BoxedStrategy<Value> {
    let pem = Just(json!(PEM));
    Union::new_weighted(vec![(8, select(TEXTS.to_vec()).prop_map(|text| json!(text)).boxed()), (1, pem.boxed())])
        .boxed()
}

fn value(kind: &FieldType, depth: u32) -> BoxedStrategy<Value> {
    match kind {
        FieldType::Text => text(),
        FieldType::Boolean => any::<bool>().prop_map(Value::from).boxed(),
        FieldType::Integer => select(vec![0_u64, 1, 1400]).prop_map(Value::from).boxed(),
        FieldType::Choice(words) => select(words.to_vec()).prop_map(Value::from).boxed(),
        FieldType::Any => {
            prop_oneof![text(), Just(json!(1)), Just(Value::Null), Just(json!({"a": [{"b c": "\n"}]}))].boxed()
        }
        FieldType::List(inner) => {
            proptest::collection::vec(value(inner, depth + 1), 0..3).prop_map(Value::from).boxed()
        }
        FieldType::Map(inner) => proptest::collection::btree_map(select(TEXTS.to_vec()), value(inner, depth + 1), 0..3)
            .prop_map(|map| map.into_iter().map(|(name, value)| (name.to_owned(), value)).collect::<Map<_, _>>().into())
            .boxed(),
        FieldType::Object(shape) => object(&shape(), depth + 1),
    }
}

/// An object with a few of its fields; with all of them one would always be invalid.
fn object(shape: &Shape, depth: u32) -> BoxedStrategy<Value> {
    let chance = if depth < 2 { 0.2 } else { 0.4 };
    let fields: Vec<BoxedStrategy<Option<(String, Value)>>> = shape
        .fields
        .iter()
        .map(|field| {
            let name = field.name.clone();
            let some = value(&field.kind, depth).prop_map(move |value| (name.clone(), value));
            proptest::option::weighted(chance, some).boxed()
        })
        .collect();
    fields.prop_map(|fields| fields.into_iter().flatten().collect::<Map<_, _>>().into()).boxed()
}

/// A document with valid required fields and arbitrary other fields.
fn document() -> impl Strategy<Value = NodeConfig> {
    object(&Spec::shape(), 0).prop_filter_map("not a spec", |mut spec| {
        for (path, valid) in [
            ("/cluster/endpoint", json!("https://api.example")),
            ("/cluster/certificateAuthority", json!(PEM)),
            ("/kubelet/version", json!("1.33.7")),
        ] {
            let (parent, name) = path.rsplit_once('/')?;
            spec.as_object_mut()?.entry(parent.trim_start_matches('/')).or_insert(json!({}));
            spec.pointer_mut(parent)?.as_object_mut()?.insert(name.to_owned(), valid);
        }
        Some(NodeConfig { spec: serde_json::from_value(spec).ok()?, ..NodeConfig::default() })
    })
}

fn is_safe(path: &str) -> bool {
    path.starts_with('/') && !path.contains(['\n', '\0']) && !path.split('/').any(|part| part == ".." || part == ".")
}

/// The non-empty lines of a text.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.is_empty())
}

fn check(desired: &Desired) -> Result<(), TestCaseError> {
    for file in &desired.files {
        let path = layout::current(&file.path);
        prop_assert!(is_safe(&path), "{path:?}");
    }
    for file in desired.outside() {
        prop_assert!(is_safe(&file.path), "{:?}", file.path);
        let reserved = ["/etc/kiln", "/var/lib/kiln", "/proc", "/sys", "/run/kiln"];
        prop_assert!(!reserved.iter().any(|folder| file.path.starts_with(folder)), "{}", file.path);
    }
    for setting in &desired.kernel {
        prop_assert!(is_safe(&setting.path) && !setting.value.contains('\n'), "{setting:?}");
        prop_assert!(setting.path.starts_with("/proc/sys/") || setting.path.starts_with("/sys/"), "{setting:?}");
    }
    for name in [layout::KUBELET_ENV, layout::REGISTER_ENV, layout::RUNTIME_ENV] {
        for line in lines(desired.text(name).unwrap_or_default()) {
            let (variable, rest) = line.split_once("=\"").unwrap_or_default();
            let plain = variable.bytes().all(|b| b.is_ascii_alphabetic() || b == b'_') && !variable.is_empty();
            prop_assert!(plain && rest.ends_with('"'), "{name}: {line:?}");
        }
    }
    for block in desired.blocks.iter().filter(|block| block.path == layout::FSTAB) {
        prop_assert!(lines(&block.text).all(|line| line.split(' ').count() == 6), "{block:?}");
    }
    // No value of the document may become another section, setting or option.
    for file in &desired.elsewhere {
        let FileContent::Bytes(bytes) = &file.content else { continue };
        let text = String::from_utf8_lossy(bytes);
        match file.path.as_str() {
            "/etc/sysctl.d/90-kiln.conf" => {
                let settings = desired.kernel.iter().filter(|setting| setting.path.starts_with("/proc/sys/")).count();
                prop_assert_eq!(text.lines().count(), settings, "{:?}", text);
            }
            "/etc/systemd/timesyncd.conf.d/90-kiln.conf" | "/etc/systemd/resolved.conf.d/90-kiln.conf" => {
                prop_assert_eq!(text.lines().count(), 2, "{:?}", text);
            }
            "/etc/default/grub.d/90-kiln.cfg" => {
                prop_assert_eq!(text.matches(['$', '`', '"']).count(), 3, "{:?}", text);
            }
            _ => {}
        }
    }
    for account in &desired.accounts {
        let all = [account.name.as_str(), &account.shell, &account.groups.concat()].concat();
        prop_assert!(!all.contains([':', '\n']), "{all:?}");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn odd_documents_are_rejected_or_inject_nothing(config in document()) {
        if let Ok(desired) = Desired::render(&config, &facts()) {
            check(&desired)?;
            let plan = Plan::new(None, &config, &desired, &Machine::default().observed());
            prop_assert!(!plan.is_empty());
        }
    }
}

#[test]
fn many_odd_documents_are_accepted() {
    use proptest::strategy::ValueTree as _;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let accepted = (0..400).filter(|_| {
        let config = document().new_tree(&mut runner).expect("a document").current();
        Desired::render(&config, &facts()).is_ok()
    });
    let accepted = accepted.count();
    assert!(accepted > 100, "{accepted} of 400");
}
