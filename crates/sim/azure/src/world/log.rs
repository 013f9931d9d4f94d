//! Persistence of the simulated state: one line per commit, with the changed records.

use jiff::Timestamp;
use kiln_sim_store::{Persistent, Table};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{Globals, World};

/// A commit as written to the journal.
#[derive(Serialize, Deserialize)]
struct Line<'a> {
    now: Timestamp,
    meta: Globals,
    /// Table, key, and the record or null.
    #[serde(borrow)]
    changes: Vec<(char, String, Option<&'a RawValue>)>,
}

impl World {
    /// Discards the lists of changed records, which grow until a journal takes them.
    pub(crate) fn discard_changes_of_tables(&mut self) {
        self.groups.discard_changes();
        self.resources.discard_changes();
        self.operations.discard_changes();
        self.agenda.discard_changes();
    }
}

type Change = (char, String, Option<Box<RawValue>>);

impl Persistent for World {
    fn replay(&mut self, line: &str) -> Result<(), serde_json::Error> {
        fn put<T: for<'a> Deserialize<'a>>(
            table: &mut Table<T>,
            key: String,
            record: Option<&RawValue>,
        ) -> Result<(), serde_json::Error> {
            table.restore(key, record.map(|raw| serde_json::from_str(raw.get())).transpose()?);
            Ok(())
        }
        let line: Line<'_> = serde_json::from_str(line)?;
        self.now = line.now;
        self.meta = line.meta;
        for (table, key, record) in line.changes {
            match table {
                'g' => put(&mut self.groups, key, record)?,
                'r' => put(&mut self.resources, key, record)?,
                'o' => put(&mut self.operations, key, record)?,
                'e' => put(&mut self.agenda, key, record)?,
                other => return Err(serde::de::Error::custom(format!("unknown table `{other}`"))),
            }
        }
        Ok(())
    }

    fn take_changes(&mut self) -> Option<Vec<u8>> {
        let mut all = Vec::new();
        take('g', &mut self.groups, &mut all);
        take('r', &mut self.resources, &mut all);
        take('o', &mut self.operations, &mut all);
        take('e', &mut self.agenda, &mut all);
        (!all.is_empty()).then(|| encode(self, &all))
    }

    fn full_state(&self) -> Vec<u8> {
        let mut all = Vec::new();
        snapshot('g', &self.groups, &mut all);
        snapshot('r', &self.resources, &mut all);
        snapshot('o', &self.operations, &mut all);
        snapshot('e', &self.agenda, &mut all);
        encode(self, &all)
    }
}

fn raw<T: Serialize>(record: &T) -> Box<RawValue> {
    serde_json::value::to_raw_value(record).expect("records have string keys")
}

fn snapshot<T: Serialize>(table: char, records: &Table<T>, into: &mut Vec<Change>) {
    into.extend(records.iter().map(|(key, record)| (table, key.to_owned(), Some(raw(record)))));
}

fn take<T: Serialize>(table: char, records: &mut Table<T>, into: &mut Vec<Change>) {
    into.extend(records.take_changes().into_iter().map(|(key, record)| (table, key, record.map(raw))));
}

fn encode(world: &World, changes: &[Change]) -> Vec<u8> {
    let changes = changes.iter().map(|(table, key, record)| (*table, key.clone(), record.as_deref())).collect();
    serde_json::to_vec(&Line { now: world.now, meta: world.meta.clone(), changes }).expect("a commit has string keys")
}
