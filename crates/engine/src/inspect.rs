//! What a run that is gone on with reads again of its donor.

use kiln_types::Inspection;
use kiln_prototype::journal::StepFailure;
use kiln_types::{ErrorClass, Factory};

use crate::carry::Carrier;
use crate::error::{Error, of_cluster};
use crate::gather::{Consent, Gathered};
use crate::news::RunEventKind;
use crate::place::Place;

impl<F: Factory> Carrier<'_, F> {
    /// What is inside the donor: as it was read at the beginning, or read now.
    pub(crate) async fn inspected(&mut self) -> Result<Inspection, StepFailure> {
        if let Some(inspection) = &self.inspection {
            return Ok(inspection.clone());
        }
        let Some(node) = self.node_seen(&self.node).await? else {
            let message = format!("node {} is gone, so its inside cannot be read", self.node);
            return Err(StepFailure::new(ErrorClass::NotFound, message));
        };
        self.tell(RunEventKind::Inspecting(self.node.clone())).await;
        let inspection = self.context.inside.inspect(&node, &self.owner).await.map_err(|error| of_cluster(&error))?;
        self.inspection = Some(inspection.clone());
        Ok(inspection)
    }

    /// What speaks against the run, read anew: its first process died before it could say that nothing does. What a person agreed to then
    /// is not asked for again.
    pub(crate) async fn refusals(&mut self) -> Result<Vec<String>, StepFailure> {
        let Some(node) = self.node_seen(&self.node).await? else {
            return Ok(vec![format!("donor {} is gone", self.node)]);
        };
        let header = &self.run.header;
        let place = Place { pool: header.pool.clone(), instance: header.donor.instance.clone() };
        let consent = Consent { force: header.options.force, allow_empty_pool: true, no_original: true };
        match Box::pin(Gathered::read(self.context, &node, &place, consent, &self.run.id)).await {
            Ok(gathered) => {
                let refusals = gathered.refusals();
                self.inspection = gathered.inside.ok();
                self.seen.pool = Some(gathered.pool);
                Ok(refusals)
            }
            Err(Error::Cluster(error)) => Err(of_cluster(&error)),
            Err(Error::Cloud { class, what, source }) => Err(StepFailure::new(class, format!("{what}: {source}"))),
            Err(error) => Ok(vec![error.to_string()]),
        }
    }
}
