//! Every value has an effect, listed here with its location.

use std::collections::BTreeSet;
use std::thread;

use chart_tests::{Helm, Rendered, leaves, schema};
use serde_json::{Value, json};

use crate::sets::{self, Values, rendered};

/// Where the effect of a value appears.
enum Effect {
    /// These words are among the arguments.
    Words(&'static str),
    /// A variable of the container has this value.
    Variable(&'static str, Value),
    /// The pod has this value at a JSON pointer.
    Pod(&'static str, Value),
    /// The spec of the Job has this value.
    Job(&'static str, Value),
    /// The object of a kind has this value.
    Object(&'static str, &'static str, Value),
    /// The object of a kind and name has this value.
    Named(&'static str, &'static str, &'static str, Value),
}

use Effect::{Job, Named, Object, Pod, Variable, Words};

impl Effect {
    fn is_in(&self, rendered: &Rendered) -> bool {
        let at =
            |value: &Value, pointer: &str, expected: &Value| value.pointer(pointer).unwrap_or(&Value::Null) == expected;
        match self {
            Words(expected) => rendered.arguments().contains(&format!(" {expected} ")),
            Variable(name, expected) => rendered.variable(name) == expected,
            Pod(pointer, expected) => at(rendered.pod(), pointer, expected),
            Job(pointer, expected) => at(rendered.job(), pointer, expected),
            Object(kind, pointer, expected) => at(rendered.one(kind), pointer, expected),
            Named(kind, name, pointer, expected) => at(rendered.named(kind, name), pointer, expected),
        }
    }
}

struct Row {
    path: &'static str,
    value: Value,
    base: Values,
    effect: Effect,
}

fn row(base: fn() -> Values, path: &'static str, value: Value, effect: Effect) -> Row {
    Row { path, value, base: base(), effect }
}

fn status() -> Values {
    Vec::new()
}

fn identity() -> Values {
    [sets::update(), sets::identity()].concat()
}

fn by_hash() -> Values {
    vec![("kamino.container.imageHash", json!("b".repeat(64))), ("kamino.container.pullByHash", json!(true))]
}

fn proxied() -> Values {
    vec![("proxy.https", json!("http://p:1"))]
}

fn gallery() -> Values {
    vec![("azure.galleryResourceGroup", json!("images"))]
}

fn managed() -> Values {
    let subscription = json!("11111111-2222-3333-4444-555555555555");
    vec![
        ("azure.credential", json!("managedIdentity")),
        ("azure.resourceGroup", json!("g")),
        ("azure.subscription", subscription),
    ]
}

fn with_certificates() -> Values {
    vec![("caBundle.configMap", json!("roots"))]
}

fn nightly() -> Values {
    sets::nightly()
}

const IMAGE: &str = "/spec/containers/0/image";
const TERMS: &str = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";

#[rustfmt::skip]
fn kamino_values() -> Vec<Row> {
    let hash = "a".repeat(64);
    vec![
        row(status, "kamino.name", json!("gen"), Pod("/spec/containers/0/name", json!("gen"))),
        row(status, "kamino.labels", json!({"app": "x"}), Pod("/metadata/labels/app", json!("x"))),
        row(status, "kamino.container.imageRegistry", json!("r.example/p"), Pod(IMAGE, json!("r.example/p/kiln:0.1.0"))),
        row(status, "kamino.container.imageRepository", json!("other"), Pod(IMAGE, json!("other:0.1.0"))),
        row(status, "kamino.container.imageTag", json!("v9"), Pod(IMAGE, json!("kiln:v9"))),
        row(by_hash, "kamino.container.imageHash", json!(hash), Pod(IMAGE, json!(format!("kiln@sha256:{hash}")))),
        row(by_hash, "kamino.container.pullByHash", json!(false), Pod(IMAGE, json!("kiln:0.1.0"))),
        row(status, "kamino.container.pullSecret", json!("s"), Pod("/spec/imagePullSecrets/0/name", json!("s"))),
        row(sets::update, "kamino.imageHistory", json!(5), Words("--max-history 5")),
        row(status, "kamino.jobTtl", json!(60), Job("/ttlSecondsAfterFinished", json!(60))),
        row(sets::update, "kamino.drain.gracePeriod", json!(5), Words("--grace-period 5")),
        row(sets::update, "kamino.drain.force", json!(true), Words("--force")),
        row(sets::auto, "kamino.auto.minimumReadyTime", json!("3d"), Words("--minimum-ready-time 3d")),
        row(sets::auto, "kamino.auto.minimumCandidates", json!(4), Words("--minimum-candidates 4")),
        row(sets::auto, "kamino.auto.maximumImageAge", json!(7), Words("--maximum-image-age 7")),
        row(sets::auto, "kamino.auto.lastPatchAnnotation", json!("a/b"), Words("--last-patch-annotation a/b")),
        row(sets::auto, "kamino.auto.pendingRebootAnnotation", json!("a/b"), Words("--pending-reboot-annotation a/b")),
        row(sets::auto, "kamino.auto.dryRun", json!(true), Words("--dry-run")),
        row(sets::auto, "kamino.auto.cronjob.enabled", json!(true), Object("CronJob", "/spec/concurrencyPolicy", json!("Forbid"))),
        row(nightly, "kamino.auto.cronjob.schedule", json!("42 * * * *"), Object("CronJob", "/spec/schedule", json!("42 * * * *"))),
        row(status, "kamino.logLevel", json!("DEBUG"), Words("--log-level DEBUG")),
        row(status, "kamino.targetNode", json!("pool-vmss000001"), Words("prototype update")),
        row(sets::auto, "kamino.targetVMSS", json!("pool-vmss"), Words("--target-vmss pool-vmss")),
        row(sets::update, "kamino.newUpdatedNodes", json!(2), Words("--new-updated-nodes 2")),
        row(status, "kamino.scheduleOnControlPlane", json!(true), Pod(TERMS, json!([
            {"matchExpressions": [{"key": "kubernetes.io/role", "operator": "In", "values": ["master"]}]},
            {"matchExpressions": [{"key": "node-role.kubernetes.io/master", "operator": "Exists"}]},
            {"matchExpressions": [{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}]},
        ]))),
    ]
}

#[rustfmt::skip]
fn kiln_values() -> Vec<Row> {
    vec![
        row(sets::update, "kiln.canary", json!(false), Words("--no-canary")),
        row(sets::update, "kiln.join", json!("recipe"), Words("--join recipe")),
        row(sets::update, "kiln.canarySecret", json!("pool-secrets"), Words("--canary-secret pool-secrets")),
        row(sets::update, "kiln.pin", json!(true), Words("--pin")),
        row(sets::update, "kiln.deallocate", json!(true), Words("--deallocate")),
        row(sets::update, "kiln.live", json!(true), Words("--live")),
        row(sets::update, "kiln.replaceToday", json!(true), Words("--replace-today")),
        row(sets::update, "kiln.allowEmptyPool", json!(true), Words("--allow-empty-pool")),
        row(sets::auto, "kiln.allowSkipped", json!(true), Words("--allow-skipped")),
        row(sets::auto, "kiln.maxSkippedNights", json!(3), Words("--max-skipped-nights 3")),
        row(sets::update, "kiln.allowManagedPool", json!(true), Words("--allow-managed-pool")),
        row(sets::update, "kiln.allowRejectedPatch", json!(true), Words("--allow-rejected-patch")),
        row(sets::update, "kiln.noOriginal", json!(true), Words("--no-original")),
        row(sets::update, "kiln.protectedSettingsSecret", json!("ns/name"), Words("--protected-settings-secret ns/name")),
        row(sets::update, "kiln.tags", json!({"a": "b", "c": "d"}), Words("--tags a=b --tags c=d")),
        row(sets::update, "kiln.canarySize", json!("Standard_D2s_v5"), Words("--canary-size Standard_D2s_v5")),
        row(sets::update, "kiln.canaryZone", json!("2"), Words("--canary-zone 2")),
        row(sets::update, "kiln.smokeTest", json!({"apiVersion": "v1", "kind": "Pod"}), Words("--smoke-test /etc/kiln/smoke-test/pod.yaml")),
        row(sets::update, "kiln.soak", json!("10m"), Words("--soak 10m")),
        row(sets::update, "kiln.keepCanaryOnFailure", json!(true), Words("--keep-canary-on-failure")),
        row(sets::update, "kiln.replicas", json!(5), Words("--replicas 5")),
        row(sets::update, "kiln.targetRegions", json!({"eastus": 2, "westus": null}), Words("--target-regions eastus=2")),
        row(sets::update, "kiln.diskEncryptionSet", json!("/subscriptions/x"), Words("--disk-encryption-set /subscriptions/x")),
        row(sets::auto, "kiln.ignoreNodes", json!(["n1", "n2"]), Words("--ignore-nodes n1 --ignore-nodes n2")),
        row(sets::auto, "kiln.nodeIgnoreAnnotations", json!(["a/b"]), Words("--node-ignore-annotation a/b")),
        row(status, "kiln.logPrefix", json!("p"), Words("--log-prefix p")),
        row(status, "kiln.logTimestamps", json!(true), Words("--log-timestamps")),
        row(status, "kiln.output", json!("json"), Words("--output json")),
        row(status, "kiln.run", json!(["prototype", "history"]), Words("prototype history --in-cluster")),
        row(status, "kiln.imagePullPolicy", json!("Never"), Pod("/spec/containers/0/imagePullPolicy", json!("Never"))),
    ]
}

#[rustfmt::skip]
fn operator_values() -> Vec<Row> {
    let container = "/spec/template/spec/containers/0";
    let kured = "nodes-runner-kiln-kured";
    vec![
        row(status, "operator.enabled", json!(true), Object("Deployment", "/spec/replicas", json!(2))),
        row(sets::operator, "operator.replicas", json!(3), Object("Deployment", "/spec/replicas", json!(3))),
        row(sets::operator, "operator.crds", json!(false), Named("CustomResourceDefinition", "rollouts.node.kiln.dev", "", Value::Null)),
        row(sets::operator, "operator.roles", json!(false), Named("ClusterRole", "kiln-freezer", "", Value::Null)),
        row(sets::operator, "operator.perNodeRead", json!(true), Named("ClusterRole", "kiln-node", "/rules/1/resources", json!(["nodestates/status"]))),
        row(sets::operator, "operator.images", json!(true), Object("Deployment", format!("{container}/args/8").leak(), json!("--images"))),
        row(sets::operator, "operator.kured.namespace", json!("ops"), Named("Role", kured, "/metadata/namespace", json!("ops"))),
        row(sets::operator, "operator.kured.daemonSet", json!("reboots"), Named("Role", kured, "/rules/0/resourceNames", json!(["reboots"]))),
        row(sets::operator, "operator.metrics.service", json!(false), Object("Service", "", Value::Null)),
        row(sets::operator, "operator.metrics.annotations", json!({"a": "b"}), Object("Service", "/metadata/annotations", json!({"a": "b"}))),
        row(sets::operator, "operator.dashboard", json!(true), Object("ConfigMap", "/metadata/labels/grafana_dashboard", json!("1"))),
        row(sets::operator, "operator.resources", json!({"limits": {"memory": "1Gi"}}), Object("Deployment", format!("{container}/resources/limits/memory").leak(), json!("1Gi"))),
    ]
}

#[rustfmt::skip]
fn azure_values() -> Vec<Row> {
    let json_file = "/spec/volumes/0";
    let token = "/spec/volumes/0/projected/sources/0/serviceAccountToken";
    let token = |field: &str| -> &'static str { format!("{token}/{field}").leak() };
    vec![
        row(identity, "azure.credential", json!("azureJson"), Pod("/spec/volumes/0/hostPath/type", json!("File"))),
        row(status, "azure.resourceGroup", json!("g"), Words("--resource-group g")),
        row(status, "azure.galleryResourceGroup", json!("images"), Words("--gallery-resource-group images")),
        row(gallery, "azure.gallerySubscription", json!("11111111-2222-3333-4444-555555555555"), Words("--gallery-subscription 11111111-2222-3333-4444-555555555555")),
        row(managed, "azure.managedIdentity.id", json!("abc"), Words("--managed-identity=abc")),
        row(status, "azure.subscription", json!("11111111-2222-3333-4444-555555555555"), Words("--subscription 11111111-2222-3333-4444-555555555555")),
        row(status, "azure.azureJson.hostPath", json!("/etc/a.json"), Pod(json_file, json!({"name": "azure-json", "hostPath": {"path": "/etc/a.json", "type": "File"}}))),
        row(status, "azure.azureJson.stackHostPath", json!("/etc/s.json"), Pod("/spec/volumes/1/hostPath/path", json!("/etc/s.json"))),
        row(status, "azure.azureJson.secretName", json!("azure"), Pod("/spec/volumes/0/secret/secretName", json!("azure"))),
        row(identity, "azure.workloadIdentity.clientId", json!("00000000-0000-0000-0000-000000000001"), Object("ServiceAccount", "/metadata/annotations/azure.workload.identity~1client-id", json!("00000000-0000-0000-0000-000000000001"))),
        row(identity, "azure.workloadIdentity.tenantId", json!("00000000-0000-0000-0000-000000000002"), Variable("AZURE_TENANT_ID", json!("00000000-0000-0000-0000-000000000002"))),
        row(identity, "azure.workloadIdentity.authorityHost", json!("https://login.example"), Variable("AZURE_AUTHORITY_HOST", json!("https://login.example"))),
        row(identity, "azure.workloadIdentity.projectToken", json!(false), Pod("/spec/volumes", Value::Null)),
        row(identity, "azure.workloadIdentity.audience", json!("api://x"), Pod(token("audience"), json!("api://x"))),
        row(identity, "azure.workloadIdentity.tokenExpirationSeconds", json!(7200), Pod(token("expirationSeconds"), json!(7200))),
    ]
}

#[rustfmt::skip]
fn pod_values() -> Vec<Row> {
    vec![
        row(status, "proxy.http", json!("http://p:3128"), Variable("HTTP_PROXY", json!("http://p:3128"))),
        row(status, "proxy.https", json!("http://p:3128"), Variable("HTTPS_PROXY", json!("http://p:3128"))),
        row(proxied, "proxy.exceptFor", json!([".example"]), Variable("NO_PROXY", json!("$(KUBERNETES_SERVICE_HOST),localhost,127.0.0.1,169.254.169.254,168.63.129.16,.svc,.example"))),
        row(status, "caBundle.configMap", json!("roots"), Variable("SSL_CERT_DIR", json!("/etc/kiln/ca"))),
        row(status, "caBundle.secret", json!("roots"), Pod("/spec/volumes/1/secret/secretName", json!("roots"))),
        row(with_certificates, "caBundle.key", json!("k.pem"), Pod("/spec/volumes/1/configMap/items/0/key", json!("k.pem"))),
        row(status, "serviceAccount.name", json!("sa"), Pod("/spec/serviceAccountName", json!("sa"))),
        row(status, "serviceAccount.annotations", json!({"a": "b"}), Object("ServiceAccount", "/metadata/annotations/a", json!("b"))),
        row(status, "rbac.create", json!(false), Object("ClusterRole", "", Value::Null)),
        row(status, "podSecurity.runAsUser", json!(7), Pod("/spec/securityContext/runAsUser", json!(7))),
        row(status, "job.backoffLimit", json!(1), Job("/backoffLimit", json!(1))),
        row(status, "job.activeDeadlineSeconds", json!(9000), Job("/activeDeadlineSeconds", json!(9000))),
        row(status, "job.terminationGracePeriodSeconds", json!(9), Pod("/spec/terminationGracePeriodSeconds", json!(9))),
        row(nightly, "cronjob.timeZone", json!("Etc/UTC"), Object("CronJob", "/spec/timeZone", json!("Etc/UTC"))),
        row(nightly, "cronjob.startingDeadlineSeconds", json!(30), Object("CronJob", "/spec/startingDeadlineSeconds", json!(30))),
        row(nightly, "cronjob.suspend", json!(true), Object("CronJob", "/spec/suspend", json!(true))),
        row(nightly, "cronjob.successfulJobsHistoryLimit", json!(1), Object("CronJob", "/spec/successfulJobsHistoryLimit", json!(1))),
        row(nightly, "cronjob.failedJobsHistoryLimit", json!(1), Object("CronJob", "/spec/failedJobsHistoryLimit", json!(1))),
        row(sets::update, "podDisruptionBudget.create", json!(false), Object("PodDisruptionBudget", "", Value::Null)),
        row(status, "priorityClassName", json!("high"), Pod("/spec/priorityClassName", json!("high"))),
        row(status, "podAnnotations", json!({"a": "b"}), Pod("/metadata/annotations/a", json!("b"))),
        row(status, "podLabels", json!({"a": "b"}), Pod("/metadata/labels/a", json!("b"))),
        row(status, "nodeSelector", json!({"a": "b"}), Pod("/spec/nodeSelector", json!({"a": "b", "kubernetes.io/os": "linux"}))),
        row(status, "tolerations", json!([{"operator": "Exists"}]), Pod("/spec/tolerations/2", json!({"operator": "Exists"}))),
        row(status, "resources", json!({"limits": {"memory": "1Gi"}}), Pod("/spec/containers/0/resources/limits/memory", json!("1Gi"))),
    ]
}

/// Values whose effect is not visible without a server, with the test that shows it.
const ELSEWHERE: [&str; 2] = [
    // rejections.rs: an account that is not created must be named.
    "serviceAccount.create",
    // install.rs: reads the namespace from the server.
    "podSecurity.check",
];

fn rows() -> Vec<Row> {
    [kamino_values(), kiln_values(), operator_values(), azure_values(), pod_values()].into_iter().flatten().collect()
}

#[test]
fn every_value_has_its_effect() {
    let helm = Helm::new();
    let rows = rows();
    // Helm is one process per render; the smallest CI machine has two cores.
    thread::scope(|scope| {
        for half in rows.chunks(rows.len().div_ceil(2)) {
            let helm = &helm;
            scope.spawn(move || half.iter().for_each(|row| check(helm, row)));
        }
    });
}

#[track_caller]
fn check(helm: &Helm, Row { path, value, base, effect }: &Row) {
    let before = rendered(helm, base);
    assert!(!effect.is_in(&before), "`{path}`: the effect appears without the value");
    let after = rendered(helm, &[base.clone(), vec![(*path, value.clone())]].concat());
    assert!(effect.is_in(&after), "`{path}={value}` has no effect in\n{}", after.text);
}

#[test]
fn table_contains_every_value() {
    let schema = schema();
    let known: BTreeSet<String> = leaves(&schema).into_iter().map(|(path, _)| path).collect();
    let listed: BTreeSet<String> =
        rows().iter().map(|row| row.path.to_owned()).chain(ELSEWHERE.map(str::to_owned)).collect();
    assert_eq!(known, listed);
}
