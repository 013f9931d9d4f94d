//! Checks exchanges with Azure against its published `OpenAPI` (Swagger 2.0) specifications.
//!
//! The specifications allow unknown properties everywhere and accept read-only properties in requests; the service does not.
//! [`Specs::check`] rejects both. It ignores the api-version of a request, because clients are newer than the stored specifications:
//! every version is checked against the stored one.
//!
//! ```no_run
//! use testkit::openapi::{Exchange, specs};
//!
//! # let recorded: Vec<Exchange> = Vec::new();
//! if let Some(specs) = specs() {
//!     let specs = specs.clone().without_spec(["/metadata/endpoints", "/{tenant}/oauth2/v2.0/token"]);
//!     for exchange in &recorded {
//!         assert_eq!(specs.check(exchange), []);
//!     }
//! }
//! ```

mod bundle;
mod check;
mod document;
mod finding;
mod route;
mod shape;
mod strict;

#[cfg(test)]
mod quirks;

#[cfg(test)]
mod recordings {
    mod examples;
    mod planted;
}

use std::collections::HashMap;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex};

use jsonschema::Validator;
use serde_json::Value;

use check::Check;
use document::{Documents, Node};
pub use finding::{Finding, Kind, Side};
use route::{Template, Url};

/// One request and the response to it.
#[derive(Clone, Debug)]
pub struct Exchange {
    pub method: String,
    /// Absolute, or path and query.
    pub url: String,
    pub request: Option<Value>,
    pub status: u16,
    pub response: Option<Value>,
}

/// The reasons why specifications cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read `{}`", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("`{}` is not JSON", path.display())]
    Json { path: PathBuf, source: serde_json::Error },
    /// A `$ref` without a target.
    #[error("`{}` refers to `{reference}`, which does not exist", path.display())]
    Dangling { path: PathBuf, reference: String },
    #[error("no `stable/<api-version>/<name>.json` below `{}`", folder.display())]
    Empty { folder: PathBuf },
}

/// Loaded specifications. Clones share the documents and compiled validators.
#[derive(Clone)]
pub struct Specs {
    contract: Arc<Contract>,
    unspecified: Vec<Template>,
}

struct Contract {
    documents: Documents,
    routes: Vec<Route>,
    /// Compiled at first use; operations that share a schema share its validator.
    validators: Mutex<HashMap<(usize, Side), Arc<Validator>>>,
}

struct Route {
    template: Template,
    method: String,
    /// The operation: file, path and method.
    place: (usize, String, String),
}

impl Specs {
    /// Loads the newest version of each specification below `folder`, except in `examples` folders.
    pub fn load(folder: impl AsRef<Path>) -> Result<Self, Error> {
        let documents = Documents::load(folder.as_ref())?;
        let mut routes: Vec<Route> = documents.roots().enumerate().flat_map(collect_routes).collect();
        routes.sort_by_cached_key(|route| std::cmp::Reverse(route.template.precision()));
        let contract = Contract { documents, routes, validators: Mutex::default() };
        Ok(Self { contract: Arc::new(contract), unspecified: Vec::new() })
    }

    /// Accepts paths that no specification describes. In a template `{x}` matches one segment and `{x*}` one or more. A path that has
    /// a specification is checked in any case.
    #[must_use]
    pub fn without_spec<'t>(mut self, templates: impl IntoIterator<Item = &'t str>) -> Self {
        let parsed = templates.into_iter().map(|text| Template::parse(text, |_| false));
        self.unspecified.extend(parsed);
        self
    }

    /// Returns all differences between the exchange and the specification of its operation.
    pub fn check(&self, exchange: &Exchange) -> Vec<Finding> {
        self.route(exchange, |check, captured, url| {
            check.parameters(captured, &url.query);
            check.request(exchange.request.as_ref());
            check.response(exchange.status, exchange.response.as_ref());
        })
    }

    /// Checks that required headers are present and that declared headers have valid values. Other headers are accepted, because
    /// specifications do not list those that every request has.
    pub fn check_headers<'h>(
        &self,
        exchange: &Exchange,
        headers: impl IntoIterator<Item = (&'h str, &'h str)>,
    ) -> Vec<Finding> {
        let headers: Vec<_> = headers.into_iter().collect();
        self.route(exchange, |check, _, _| check.headers(&headers))
    }

    fn route(
        &self,
        exchange: &Exchange,
        examine: impl FnOnce(&mut Check<'_>, &[(&str, String)], &Url<'_>),
    ) -> Vec<Finding> {
        let Exchange { method, url, .. } = exchange;
        let url = Url::parse(url);
        let mut path_is_known = false;
        for route in &self.contract.routes {
            let Some(captured) = route.template.captures(url.path) else {
                continue;
            };
            if route.method.eq_ignore_ascii_case(method) {
                let mut check = Check::new(&self.contract, self.contract.operation(route), method);
                examine(&mut check, &captured, &url);
                return check.findings;
            }
            path_is_known = true;
        }
        let is_unspecified = self.unspecified.iter().any(|template| template.captures(url.path).is_some());
        let (kind, message) = match (path_is_known, is_unspecified) {
            (false, true) => return Vec::new(),
            (false, false) => (Kind::UnknownPath, "no specification has this path"),
            (true, _) => (Kind::UnknownMethod, "the path has no such method"),
        };
        vec![Finding {
            operation: format!("{method} {}", url.path),
            side: Side::Request,
            pointer: String::new(),
            kind,
            message: message.to_owned(),
        }]
    }
}

impl Contract {
    fn operation(&self, route: &Route) -> Node<'_> {
        let (file, path, method) = &route.place;
        let root = self.documents.root(*file);
        let operation = root.get("paths").and_then(|paths| paths.get(path)?.get(method));
        operation.expect("every route belongs to an operation")
    }

    fn validator(&self, schema: Node<'_>, side: Side) -> Result<Arc<Validator>, String> {
        let schema = schema.resolved();
        let key = (schema.identity(), side);
        let mut validators = self.validators.lock().expect("compiling does not panic");
        if let Some(validator) = validators.get(&key) {
            return Ok(Arc::clone(validator));
        }
        let compiled = jsonschema::draft4::options().build(&bundle::draft4(schema, side));
        let validator = Arc::new(compiled.map_err(|error| error.to_string())?);
        validators.insert(key, Arc::clone(&validator));
        Ok(validator)
    }
}

fn collect_routes((file, root): (usize, Node<'_>)) -> Vec<Route> {
    let base = root.text("basePath").unwrap_or_default();
    let mut routes = Vec::new();
    for (path, methods) in root.members("paths") {
        for (method, operation) in methods.value.as_object().into_iter().flatten() {
            let operation = methods.at(operation);
            let spans = |name: &str| {
                let mut parameters = operation.items("parameters").map(Node::resolved);
                parameters
                    .any(|parameter| parameter.text("name") == Some(name) && parameter.flag("x-ms-skip-url-encoding"))
            };
            let template = Template::parse(&format!("{base}{path}"), spans);
            if operation.get("responses").is_some() && !template.is_generic() {
                routes.push(Route { template, method: method.clone(), place: (file, path.clone(), method.clone()) });
            }
        }
    }
    routes
}

/// The specifications in the recorded data, loaded once. Without the data they are `None`, with a line on stderr.
///
/// # Panics
/// If the data is missing in CI, or cannot be loaded.
pub fn specs() -> Option<&'static Specs> {
    static SPECS: LazyLock<Option<Specs>> = LazyLock::new(|| {
        let Some(folder) = crate::recordings::azure_specs() else {
            // Not `eprintln!`, which the test harness hides for tests that pass.
            let _ =
                writeln!(io::stderr(), "no recorded data: exchanges are not checked against OpenAPI specifications");
            return None;
        };
        let specs = Specs::load(&folder);
        Some(specs.unwrap_or_else(|error| panic!("{error}: {:?}", std::error::Error::source(&error))))
    });
    SPECS.as_ref()
}

/// The same for tests of a module `recordings`, which fail without the data.
#[track_caller]
pub fn require_specs() -> &'static Specs {
    specs().expect("the recorded data is on this machine (see CONTRIBUTING.md)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_for_a_folder_without_specifications_names_the_folder() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let error = Specs::load(&folder).err().expect("`src` has no specifications");
        assert!(error.to_string().contains(&*folder.to_string_lossy()), "{error}");
    }
}
