//! The files of the specifications and the references between them.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::{Component, Path, PathBuf};

use serde_json::Value;

use super::Error;

/// All files of the specifications. [`Documents::load`] reads them; later nothing is read.
pub(super) struct Documents {
    files: Vec<Document>,
}

struct Document {
    path: PathBuf,
    root: Value,
    /// From the file name in a `$ref` of this file to the index of that file.
    links: HashMap<String, usize>,
}

/// A value in a document. It knows its file, because references are relative to the file.
#[derive(Clone, Copy)]
pub(super) struct Node<'a> {
    documents: &'a Documents,
    file: usize,
    pub(super) value: &'a Value,
}

impl Documents {
    /// Loads the newest version of each specification below `folder` and all files that they refer to.
    pub(super) fn load(folder: &Path) -> Result<Self, Error> {
        let mut found = BTreeMap::new();
        newest(folder, &mut found)?;
        if found.is_empty() {
            return Err(Error::Empty { folder: folder.to_owned() });
        }
        let mut documents = Self { files: Vec::new() };
        let mut known = HashMap::new();
        for path in found.into_values() {
            documents.add(path, &mut known)?;
        }
        let mut next = 0;
        while next < documents.files.len() {
            documents.link(next, &mut known)?;
            next += 1;
        }
        documents.files.iter().enumerate().try_for_each(|(file, _)| documents.check_references(file))?;
        Ok(documents)
    }

    pub(super) fn roots(&self) -> impl Iterator<Item = Node<'_>> {
        (0..self.files.len()).map(|file| self.root(file))
    }

    pub(super) fn root(&self, file: usize) -> Node<'_> {
        Node { documents: self, file, value: &self.files[file].root }
    }

    /// The definition `name` in the file whose path ends with `ending`.
    pub(super) fn definition(&self, ending: &str, name: &str) -> Option<Node<'_>> {
        self.roots().find(|root| self.files[root.file].path.ends_with(ending))?.get("definitions")?.get(name)
    }

    fn add(&mut self, path: PathBuf, known: &mut HashMap<PathBuf, usize>) -> Result<usize, Error> {
        if let Some(&file) = known.get(&path) {
            return Ok(file);
        }
        let text = fs::read(&path).map_err(|source| Error::Read { path: path.clone(), source })?;
        let root = serde_json::from_slice(&text).map_err(|source| Error::Json { path: path.clone(), source })?;
        let file = self.files.len();
        known.insert(path.clone(), file);
        self.files.push(Document { path, root, links: HashMap::new() });
        Ok(file)
    }

    fn link(&mut self, file: usize, known: &mut HashMap<PathBuf, usize>) -> Result<(), Error> {
        let mut targets = Vec::new();
        references(&self.files[file].root, &mut |reference| {
            let (target, _) = split(reference);
            if !target.is_empty() && !targets.iter().any(|seen| seen == target) {
                targets.push(target.to_owned());
            }
        });
        for target in targets {
            let folder = self.files[file].path.parent().unwrap_or(Path::new(""));
            let linked = self.add(join(folder, &target), known)?;
            self.files[file].links.insert(target, linked);
        }
        Ok(())
    }

    /// Rejects references without a target, so that following a reference later cannot fail.
    fn check_references(&self, file: usize) -> Result<(), Error> {
        let mut dangling = None;
        references(&self.files[file].root, &mut |reference| {
            if self.follow(file, reference).is_none() {
                dangling = Some(reference.to_owned());
            }
        });
        match dangling {
            None => Ok(()),
            Some(reference) => Err(Error::Dangling { path: self.files[file].path.clone(), reference }),
        }
    }

    fn follow(&self, file: usize, reference: &str) -> Option<Node<'_>> {
        let (target, fragment) = split(reference);
        let document = &self.files[file];
        let file = if target.is_empty() { file } else { *document.links.get(target)? };
        let value = self.files[file].root.pointer(fragment)?;
        Some(Node { documents: self, file, value })
    }
}

impl<'a> Node<'a> {
    pub(super) fn at(self, value: &'a Value) -> Self {
        Self { value, ..self }
    }

    pub(super) fn get(self, key: &str) -> Option<Self> {
        Some(self.at(self.value.get(key)?))
    }

    pub(super) fn text(self, key: &str) -> Option<&'a str> {
        self.value.get(key)?.as_str()
    }

    pub(super) fn flag(self, key: &str) -> bool {
        self.value.get(key).and_then(Value::as_bool).unwrap_or(false)
    }

    pub(super) fn members(self, key: &str) -> impl Iterator<Item = (&'a String, Self)> {
        self.value
            .get(key)
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
            .map(move |(name, value)| (name, self.at(value)))
    }

    pub(super) fn items(self, key: &str) -> impl Iterator<Item = Self> {
        self.value.get(key).and_then(Value::as_array).into_iter().flatten().map(move |value| self.at(value))
    }

    /// The direct target of `$ref`.
    pub(super) fn target(self) -> Option<Self> {
        self.documents.follow(self.file, self.text("$ref")?)
    }

    /// The end of the chain of `$ref`s that starts here.
    pub(super) fn resolved(self) -> Self {
        let mut node = self;
        while let Some(next) = node.target() {
            node = next;
        }
        node
    }

    #[cfg(test)]
    pub(super) fn path(self) -> &'a Path {
        &self.documents.files[self.file].path
    }

    pub(super) fn documents(self) -> &'a Documents {
        self.documents
    }

    /// Identifies the value by its address: documents do not move after loading.
    pub(super) fn identity(self) -> usize {
        std::ptr::from_ref(self.value).addr()
    }
}

/// Finds the files `…/stable/<api-version>/<name>.json` and keeps the newest api-version of each.
fn newest(folder: &Path, found: &mut BTreeMap<(PathBuf, PathBuf), PathBuf>) -> Result<(), Error> {
    let failed = |source| Error::Read { path: folder.to_owned(), source };
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_dir() {
            if path.file_name().is_some_and(|name| name != "examples") {
                newest(&path, found)?;
            }
            continue;
        }
        let (Some(version), Some(name)) = (path.parent(), path.file_name()) else {
            continue;
        };
        let Some(channel) = version.parent().filter(|channel| channel.ends_with("stable")) else {
            continue;
        };
        if path.extension().is_some_and(|extension| extension == "json") {
            let kept = found.entry((channel.to_owned(), PathBuf::from(name))).or_insert_with(|| path.clone());
            if *kept < path {
                *kept = path;
            }
        }
    }
    Ok(())
}

/// Visits each `$ref` in a value, except references to examples.
fn references<'v>(value: &'v Value, visit: &mut impl FnMut(&'v str)) {
    match value {
        Value::Object(members) => {
            for (key, member) in members {
                match member {
                    Value::String(reference) if key == "$ref" => visit(reference),
                    _ if key == "x-ms-examples" => {}
                    _ => references(member, visit),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, visit)),
        _ => {}
    }
}

fn split(reference: &str) -> (&str, &str) {
    reference.split_once('#').unwrap_or((reference, ""))
}

/// Joins without `.` and `..`, so that a file with two relative paths is loaded once.
pub(super) fn join(folder: &Path, relative: &str) -> PathBuf {
    let mut joined = folder.to_owned();
    for component in Path::new(relative).components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                joined.pop();
            }
            other => joined.push(other),
        }
    }
    joined
}
