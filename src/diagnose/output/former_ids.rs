//! Former ids of playbooks in a diagnosis that an earlier version made.

use crate::{Diagnosis, Judgement};
use knowledge::playbook::Aliases;

impl Diagnosis {
    /// Replaces former ids of playbooks.
    pub fn resolve_aliases(&mut self, aliases: &Aliases) {
        // Every field stands here, so that a new one is not forgotten.
        let Self {
            schema: _,
            at: _,
            window_seconds: _,
            scope: _,
            engines: _,
            kinds: _,
            compared_with: _,
            pools: _,
            symptom,
            replicas: _,
            parts: _,
            causes,
            timeline,
            unknown: _,
            nearest,
            screening,
            ruled_out,
            unchecked,
            not_looked_at,
            fix,
            problems: _,
            degraded: _,
            direct: _,
            logs: _,
            queries: _,
            incomplete: _,
            took_seconds: _,
        } = self;
        let name = |id: &mut String| aliases.resolve(id);
        let judged = |judged: &mut Vec<Judgement>| judged.iter_mut().for_each(|one| name(&mut one.id));
        name(&mut symptom.playbook);
        for cause in causes {
            name(&mut cause.id);
            cause.chain.iter_mut().for_each(name);
            judged(&mut cause.via);
        }
        timeline.iter_mut().for_each(|onset| name(&mut onset.id));
        nearest.iter_mut().chain(ruled_out).for_each(|cause| name(&mut cause.id));
        unchecked.iter_mut().flat_map(|signal| &mut signal.causes).for_each(name);
        not_looked_at.iter_mut().for_each(|cause| name(&mut cause.id));
        fix.now.iter_mut().chain(&mut fix.lasting).for_each(|fix| name(&mut fix.cause));
        if let Some(asked) = screening.as_mut().and_then(|screening| screening.asked.as_mut()) {
            name(asked);
        }
    }
}
