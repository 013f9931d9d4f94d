//! Secrets are planted in every field that may hold one, and searched everywhere but in what renders them.

use kiln_aks_formats::anc::Host;
use kiln_bootstrap::compare::{Environment, Side, compare};
use kiln_bootstrap::drift::Record;
use kiln_bootstrap::render::{Material, Target, aks_node_config, render};
use kiln_bootstrap::{AksVariables, Document, Field, Form, launch, sources};
use serde_json::{Value, json};

use crate::common::inputs;

const PLANTED: &str = "hunter2.planted-secret";

fn planted() -> Vec<(&'static str, Value)> {
    let secret = Field::all().iter().filter(|field| field.secret && field.is_input());
    secret
        .map(|field| {
            assert_eq!(field.form, Form::Text);
            (field.name, json!(PLANTED))
        })
        .collect()
}

#[test]
fn a_planted_secret_shows_nowhere_but_in_what_is_rendered() {
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
        serde_json::to_string(&Record::of(&resolved).unwrap()).unwrap(),
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
        format!("{:?}", Material::Layers(Box::new(resolved.clone()))),
        format!("{:?}", Material::Values(Box::new(flat))),
        format!("{:?}", Material::NodeController(Box::new(controller.clone()), Host::default())),
        format!("{:?}", Side::Environment(Environment(environment.clone()))),
        format!("{:?}", Side::NodeController(Box::new(controller.clone()))),
    ]);
    let other = inputs(&[]);
    let sides = [
        (Side::Inputs(Box::new(resolved.clone())), Side::Inputs(Box::new(other.clone()))),
        (
            Side::Environment(Environment(environment)),
            Side::Environment(Environment(other.variables().unwrap().environment())),
        ),
        (Side::NodeController(Box::new(controller)), Side::NodeController(Box::new(aks_node_config(&other).unwrap()))),
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
fn a_node_config_never_holds_the_token_and_refuses_a_password() {
    let config = render(&inputs(&[]), Target::NodeConfig).unwrap();
    assert!(!config.expose().contains("0123456789abcdef"));
    let error = render(&inputs(&[("HTTPProxyURLs", json!("http://user:planted-secret@proxy"))]), Target::NodeConfig)
        .unwrap_err();
    let text = format!("{error} {error:?}");
    assert!(text.contains("spec.os.proxy.http") && !text.contains("planted-secret"), "{text}");
    assert!(!Target::NodeConfig.may_hold_secrets() && Target::Env.may_hold_secrets());
}
