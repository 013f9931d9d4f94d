//! Inspects the donor of a resumed run again.

use kiln_prototype::journal::StepFailure;
use kiln_types::{ErrorClass, Factory, Inspection};

use super::{InstanceRef, PreflightFacts, Runner};
use crate::error::{Error, cluster_failure};
use crate::event::RunEventKind;

impl<F: Factory> Runner<'_, F> {
    /// The inspection from the start of the run, or a new one.
    pub(super) async fn inspected(&mut self) -> Result<Inspection, StepFailure> {
        if let Some(inspection) = &self.inspection {
            return Ok(inspection.clone());
        }
        let Some(node) = self.read_node(&self.node).await? else {
            let message = format!("cannot inspect node `{}`: it no longer exists", self.node);
            return Err(StepFailure::new(ErrorClass::NotFound, message));
        };
        self.emit(RunEventKind::Inspecting(self.node.clone())).await;
        let inspection = self.context.inspector.inspect(&node, &self.owner).await;
        let inspection = inspection.map_err(|error| cluster_failure(&error))?;
        self.inspection = Some(inspection.clone());
        Ok(inspection)
    }

    /// Repeats the preflight check of a run whose first process died before it could record the result. The consents are those that the
    /// run was started with, no more and no fewer.
    pub(super) async fn blockers(&mut self) -> Result<Vec<String>, StepFailure> {
        let Some(node) = self.read_node(&self.node).await? else {
            return Ok(vec![format!("donor `{}` no longer exists", self.node)]);
        };
        let header = &self.run.header;
        let donor = InstanceRef { pool: header.pool.clone(), instance: header.donor.instance.clone() };
        match Box::pin(PreflightFacts::read(self.context, &node, &donor, &header.options, &self.run.id)).await {
            Ok(facts) => {
                let blockers = facts.blockers();
                self.inspection = facts.inspection.ok();
                self.observed.pool = Some(facts.pool);
                Ok(blockers)
            }
            Err(Error::Cluster(error)) => Err(cluster_failure(&error)),
            Err(Error::Cloud { class, what, source }) => Err(StepFailure::new(class, format!("{what}: {source}"))),
            Err(error) => Ok(vec![error.to_string()]),
        }
    }
}
