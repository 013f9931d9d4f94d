//! Exchanges with Azure, checked against its published `OpenAPI` (Swagger 2.0) files.
//!
//! The files are more lenient than the service: they allow unknown properties everywhere, and read-only properties in requests.
//! [`Specs::check`] is stricter for requests and responses. The api-version of a request is not compared, because clients are newer than the
//! stored files: every version is checked against the stored one.
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
mod examples;
#[cfg(test)]
mod planted;
#[cfg(test)]
mod quirks;

use std::collections::HashMap;
use std::env;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex};

use jsonschema::Validator;
use serde_json::Value;

use check::Check;
use document::{Documents, Node};
pub use finding::{Finding, Kind, Side};
use route::{Template, Url};

/// The folder with the files, relative to the root of the workspace.
pub const FOLDER: &str = "../../shared/azure-specs";

/// One request and its response.
#[derive(Clone, Debug)]
pub struct Exchange {
    pub method: String,
    /// An absolute URL, or a path and a query.
    pub url: String,
    pub request: Option<Value>,
    pub status: u16,
    pub response: Option<Value>,
}

/// Why specifications could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot read `{}`", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("`{}` is not JSON", path.display())]
    Json { path: PathBuf, source: serde_json::Error },
    /// The target of a `$ref` does not exist.
    #[error("`{}` refers to `{reference}`, which does not exist", path.display())]
    Dangling { path: PathBuf, reference: String },
    #[error("no `stable/<api-version>/<name>.json` below `{}`", folder.display())]
    Empty { folder: PathBuf },
}

/// Loaded specifications. Clones share the loaded files and compiled schemas.
#[derive(Clone)]
pub struct Specs {
    contract: Arc<Contract>,
    unspecified: Vec<Template>,
}

struct Contract {
    documents: Documents,
    routes: Vec<Route>,
    /// Compiled at first use. Operations with the same schema share its validator.
    validators: Mutex<HashMap<(usize, Side), Arc<Validator>>>,
}

struct Route {
    template: Template,
    method: String,
    /// The location of the operation: file, key in `paths`, method.
    place: (usize, String, String),
}

impl Specs {
    /// Loads the newest version of each specification below `folder`, except in `examples` folders.
    pub fn load(folder: impl AsRef<Path>) -> Result<Self, Error> {
        let documents = Documents::load(folder.as_ref())?;
        let mut routes: Vec<Route> = documents.roots().enumerate().flat_map(routes_of).collect();
        routes.sort_by_cached_key(|route| std::cmp::Reverse(route.template.precision()));
        let contract = Contract { documents, routes, validators: Mutex::default() };
        Ok(Self { contract: Arc::new(contract), unspecified: Vec::new() })
    }

    /// The specifications in [`FOLDER`], or `None` if that folder does not exist.
    ///
    /// # Panics
    /// If the folder exists and cannot be loaded.
    pub fn find() -> Option<Self> {
        let folder = folder();
        let loaded = folder.is_dir().then(|| Self::load(&folder))?;
        Some(loaded.unwrap_or_else(|error| panic!("{error}: {:?}", std::error::Error::source(&error))))
    }

    /// Ignores paths that no specification describes. In a template, `{x}` is one segment and `{x*}` one or more. A path that a specification does
    /// describe is still checked.
    #[must_use]
    pub fn without_spec<'t>(mut self, templates: impl IntoIterator<Item = &'t str>) -> Self {
        let parsed = templates.into_iter().map(|text| Template::parse(text, |_| false));
        self.unspecified.extend(parsed);
        self
    }

    /// All differences between an exchange and the specification of its operation.
    pub fn check(&self, exchange: &Exchange) -> Vec<Finding> {
        self.route(exchange, |check, captured, url| {
            check.parameters(captured, &url.query);
            check.request(exchange.request.as_ref());
            check.response(exchange.status, exchange.response.as_ref());
        })
    }

    /// Checks that the request has the required headers, and the values of declared headers. Other headers are ignored, because specifications do
    /// not list the headers of every request.
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
        operation.expect("a route is made from an operation")
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

fn routes_of((file, root): (usize, Node<'_>)) -> Vec<Route> {
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

/// The specifications in [`FOLDER`], loaded once. If the folder does not exist: `None`, with a line on stderr.
///
/// # Panics
/// If the folder does not exist and `CI` is set.
pub fn specs() -> Option<&'static Specs> {
    static SPECS: LazyLock<Option<Specs>> = LazyLock::new(Specs::find);
    let found = SPECS.as_ref();
    if found.is_none() {
        let is_ci = env::var_os("CI").is_some_and(|value| !value.is_empty());
        // Not `eprintln!`, which the test harness hides for a test that passes.
        let _ = writeln!(io::stderr(), "{}", absence(&folder(), is_ci));
    }
    found
}

fn absence(folder: &Path, is_ci: bool) -> String {
    let message = format!("nothing is checked against Azure's specifications: `{}` is absent", folder.display());
    assert!(!is_ci, "{message}");
    message
}

fn folder() -> PathBuf {
    let workspace = document::join(Path::new(env!("CARGO_MANIFEST_DIR")), "../../..");
    document::join(&workspace, FOLDER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "/nowhere` is absent")]
    fn missing_folder_fails_in_ci() {
        absence(Path::new("/nowhere"), true);
    }

    #[test]
    fn missing_folder_is_reported_elsewhere() {
        assert!(absence(Path::new("/nowhere"), false).contains("`/nowhere` is absent"));
    }

    #[test]
    fn folder_is_next_to_the_workspace() {
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(3).expect("crates/dev/testkit");
        assert_eq!(
            Some(folder().as_path()),
            workspace.parent().map(|parent| parent.join("shared/azure-specs")).as_deref()
        );
    }

    #[test]
    fn folder_without_specifications_is_an_error() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let error = Specs::load(&folder).err().expect("there is none in `src`");
        assert!(error.to_string().contains(&*folder.to_string_lossy()), "{error}");
    }
}
