//! The LoRA adapters of one engine: which are in the batch, which are loaded.

/// Adapters by what uses them; without LoRA there are none.
#[derive(Debug, Default)]
pub(super) struct Adapters {
    slots: usize,
    /// Of running sequences, with how many each has.
    active: Vec<(usize, usize)>,
    /// In the slots, the last used last.
    loaded: Vec<usize>,
}

impl Adapters {
    pub fn new(slots: usize) -> Self {
        Self { slots, ..Self::default() }
    }

    /// A sequence with this adapter can join the batch.
    pub fn admit(&self, adapter: Option<usize>) -> bool {
        adapter.is_none_or(|wanted| {
            self.active.len() < self.slots || self.active.iter().any(|(adapter, _)| *adapter == wanted)
        })
    }

    /// One joins; true if its adapter had to be loaded.
    pub fn join(&mut self, adapter: Option<usize>) -> bool {
        let Some(wanted) = adapter else { return false };
        match self.active.iter_mut().find(|(adapter, _)| *adapter == wanted) {
            Some((_, users)) => *users += 1,
            None => self.active.push((wanted, 1)),
        }
        let place = self.loaded.iter().position(|adapter| *adapter == wanted);
        if let Some(place) = place {
            self.loaded.remove(place);
        } else if self.loaded.len() >= self.slots {
            // The one not used for longest among those without a running sequence gives way.
            let idle = self.loaded.iter().position(|old| self.active.iter().all(|(adapter, _)| adapter != old));
            self.loaded.remove(idle.unwrap_or(0));
        }
        self.loaded.push(wanted);
        place.is_none()
    }

    /// One of its sequences left the batch.
    pub fn leave(&mut self, adapter: Option<usize>) {
        let Some(place) = self.active.iter().position(|(active, _)| Some(*active) == adapter) else { return };
        self.active[place].1 -= 1;
        if self.active[place].1 == 0 {
            self.active.swap_remove(place);
        }
    }

    /// Those in the batch.
    pub fn active(&self) -> impl Iterator<Item = usize> {
        self.active.iter().map(|(adapter, _)| *adapter)
    }
}
