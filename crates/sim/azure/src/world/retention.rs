//! Forgetting of finished operations. Without it each write would add a record to memory and to the state folder forever.

use jiff::SignedDuration;

use super::World;

/// How long the status of a finished operation can be read, in simulated time. Azure publishes no figure. This is longer than a client waits
/// between two polls, and short enough that the records of a busy pool take less space than its instances.
pub(crate) const RETENTION: SignedDuration = SignedDuration::from_hours(3);

impl World {
    /// Removes the operations that ended longer ago than [`RETENTION`].
    pub(super) fn forget_operations(&mut self) {
        while self.finished.first().is_some_and(|(ended, _)| *ended + RETENTION <= self.now) {
            if let Some((_, id)) = self.finished.pop_first() {
                self.operations.remove(&id);
            }
        }
    }

    /// Rebuilds the index of finished operations.
    pub(super) fn index_finished(&mut self) {
        let finished = self.operations.iter().filter(|(_, operation)| operation.outcome.is_some());
        self.finished = finished.map(|(id, operation)| (operation.ends, id.to_owned())).collect();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jiff::Timestamp;
    use kiln_sim_store::Persistent;

    use super::super::operation::NewOperation;
    use super::super::spec::WorldSpec;
    use super::*;
    use crate::arm::id::ResourceId;
    use crate::arm::kind::ResourceKind;

    /// The records and the bytes that a world has after a number of operations of 13 s, which is the duration of a PATCH of a scale set.
    fn size_after(operations: u32) -> [usize; 3] {
        let mut world = World::empty(Arc::new(WorldSpec::default()), Timestamp::UNIX_EPOCH, 1);
        let target = ResourceId::new("subscription", "group", ResourceKind::ScaleSet, &["pool"]);
        for _ in 0..operations {
            world.begin(NewOperation::settling(&target, 13.0));
            world.advance(None);
            world.discard_changes_of_tables();
        }
        let records = world.operations.iter().count() + world.agenda.iter().count();
        [records, world.finished.len(), world.full_state().len()]
    }

    #[test]
    fn state_after_200000_operations_is_as_large_as_after_2000() {
        let (few, many) = (size_after(2_000), size_after(200_000));
        for (few, many) in few.into_iter().zip(many) {
            assert!(many * 10 <= few * 11, "{few} and {many}");
        }
        assert!(few[0] > 500, "operations are kept for a while: {few:?}");
    }

    #[test]
    fn index_after_a_replay_is_the_index_before() {
        let mut world = World::empty(Arc::new(WorldSpec::default()), Timestamp::UNIX_EPOCH, 1);
        let target = ResourceId::new("subscription", "group", ResourceKind::ScaleSet, &["pool"]);
        for _ in 0..5 {
            world.begin(NewOperation::settling(&target, 13.0));
            world.advance(None);
        }
        world.begin(NewOperation::settling(&target, 13.0));
        let mut replayed = World::empty(Arc::new(WorldSpec::default()), Timestamp::UNIX_EPOCH, 1);
        replayed.replay(std::str::from_utf8(&world.full_state()).expect("JSON")).expect("a commit");
        replayed.index();
        assert_eq!(replayed.finished.len(), 5);
        assert_eq!(replayed.finished, world.finished);
    }
}
