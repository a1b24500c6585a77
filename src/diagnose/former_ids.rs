//! Former ids of playbooks in a diagnosis that an earlier version made.

use super::{Diagnosis, Judgement};
use knowledge::playbook::Aliases;

impl Diagnosis {
    /// Replaces former ids of playbooks.
    pub fn resolve(&mut self, aliases: &Aliases) {
        let name = |id: &mut String| aliases.resolve(id);
        let judged = |judged: &mut Vec<Judgement>| judged.iter_mut().for_each(|one| name(&mut one.id));
        name(&mut self.symptom.playbook);
        for cause in &mut self.causes {
            name(&mut cause.id);
            cause.chain.iter_mut().for_each(name);
            judged(&mut cause.via);
        }
        self.timeline.iter_mut().for_each(|onset| name(&mut onset.id));
        self.nearest.iter_mut().chain(&mut self.ruled_out).for_each(|cause| name(&mut cause.id));
        self.not_looked_at.iter_mut().for_each(|cause| name(&mut cause.id));
        self.fix.now.iter_mut().chain(&mut self.fix.lasting).for_each(|fix| name(&mut fix.cause));
        if let Some(asked) = self.screening.as_mut().and_then(|screening| screening.asked.as_mut()) {
            name(asked);
        }
    }
}
