//! Plants a secret in every field that may contain one, and searches all output except rendered targets for it.

use kiln_aks_formats::anc::Host;
use kiln_bootstrap::compare::{Environment, Side, compare};
use kiln_bootstrap::drift::Record;
use kiln_bootstrap::render::{RenderInput, Target, aks_node_config, render};
use kiln_bootstrap::{AksVariables, Document, Field, ValueType, launch, sources};
use serde_json::{Value, json};

use crate::common::inputs;

const PLANTED: &str = "hunter2.planted-secret";

fn planted() -> Vec<(&'static str, Value)> {
    let secret = Field::all().iter().filter(|field| field.secret && field.is_input());
    secret
        .map(|field| {
            assert_eq!(field.value_type, ValueType::Text);
            (field.name, json!(PLANTED))
        })
        .collect()
}

#[test]
fn planted_secrets_appear_only_in_rendered_output() {
    let plants = planted();
    assert!(plants.len() >= 3, "{plants:?}");
    let resolved = inputs(&plants);
    let mut shown = vec![
        format!("{resolved:?}"),
        serde_json::to_string(&resolved.explain()).unwrap(),
        format!("{:?}", resolved.explain()),
        format!("{:?}", resolved.variables().unwrap()),
        format!("{:?}", resolved.inputs()),
        format!("{:?}", launch::template(&resolved, &AksVariables)),
        serde_json::to_string(&Record::from_inputs(&resolved).unwrap()).unwrap(),
    ];
    for target in Target::ALL {
        shown.push(format!("{:?}", render(&resolved, target)));
    }
    let settings = plants.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
    let document = Document::read("f", &Value::Object(settings.collect()).to_string()).unwrap();
    let flat = resolved.inputs().unwrap();
    let environment = resolved.variables().unwrap().environment();
    let controller = aks_node_config(&resolved).unwrap();
    shown.extend([
        format!("{document:?}"),
        format!("{:?}", sources::settings(&document)),
        format!("{:?}", RenderInput::Sources(Box::new(resolved.clone()))),
        format!("{:?}", RenderInput::Values(Box::new(flat))),
        format!("{:?}", RenderInput::AksNodeConfig(Box::new(controller.clone()), Host::default())),
        format!("{:?}", Side::Environment(Environment(environment.clone()))),
        format!("{:?}", Side::AksNodeConfig(Box::new(controller.clone()))),
    ]);
    let other = inputs(&[]);
    let sides = [
        (Side::Inputs(Box::new(resolved.clone())), Side::Inputs(Box::new(other.clone()))),
        (
            Side::Environment(Environment(environment)),
            Side::Environment(Environment(other.variables().unwrap().environment())),
        ),
        (Side::AksNodeConfig(Box::new(controller)), Side::AksNodeConfig(Box::new(aks_node_config(&other).unwrap()))),
    ];
    for (planted, plain) in sides {
        let differences = compare(&planted, &plain).unwrap();
        assert!(differences.iter().any(|one| one.from == Some("***".into())), "{differences:?}");
        shown.push(serde_json::to_string(&differences).unwrap());
        shown.push(serde_json::to_string(&compare(&plain, &planted).unwrap()).unwrap());
    }
    for text in shown {
        assert!(!text.contains("planted-secret"), "{text}");
    }
    let script = render(&resolved, Target::NbvScript).unwrap();
    assert!(script.expose().contains("TLS_BOOTSTRAP_TOKEN='hunter2.planted-secret'"));
}

#[test]
fn node_config_never_contains_the_token_and_rejects_passwords() {
    let config = render(&inputs(&[]), Target::NodeConfig).unwrap();
    assert!(!config.expose().contains("0123456789abcdef"));
    let error = render(&inputs(&[("HTTPProxyURLs", json!("http://user:planted-secret@proxy"))]), Target::NodeConfig)
        .unwrap_err();
    let text = format!("{error} {error:?}");
    assert!(text.contains("spec.os.proxy.http") && !text.contains("planted-secret"), "{text}");
    assert!(!Target::NodeConfig.may_contain_secrets() && Target::Env.may_contain_secrets());
}
