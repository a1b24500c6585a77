//! How requests leave an engine: answered in full, or given up by their clients.

use super::engine::Engine;
use super::fleet::door::{Event, Happening};
use super::sequence::{Ending, Sequence};
use super::spec::BLOCK_TOKENS;
use super::workload::Request;

impl Engine {
    /// Takes out the sequences that have all their tokens.
    pub(super) fn finish(&mut self) {
        self.next_finish = u64::MAX;
        let mut i = 0;
        while i < self.decoding {
            if self.running[i].finish_step() > self.step {
                self.next_finish = self.next_finish.min(self.running[i].finish_step());
                i += 1;
                continue;
            }
            let sequence = self.running.remove(i);
            // With several tokens per step it may have got more than it wanted.
            self.stats.generation_tokens -= self.step - sequence.finish_step();
            let free = self.free_blocks;
            self.release(&sequence, true);
            self.decoding -= 1;
            self.observe_finished(&sequence);
            if let Some(whole) = sequence.whole {
                let until = self.now + self.on.lease.unwrap_or_else(|| self.transfer_seconds(whole.prompt));
                self.leases.push((until, self.free_blocks - free, self.on.lease.is_some()));
                self.free_blocks = free;
                self.handed_over.push(*whole);
            }
        }
    }

    /// Gives back the blocks that were read, or whose time is over.
    pub(super) fn end_leases(&mut self) {
        let now = self.now;
        for (_, blocks, unread) in self.leases.extract_if(.., |(until, ..)| *until <= now) {
            self.free_blocks += blocks;
            self.stats.expired_leases += u64::from(unread);
        }
    }

    fn observe_finished(&mut self, sequence: &Sequence) {
        let stats = &mut self.stats;
        let request = &sequence.request;
        let scheduled = sequence.first_scheduled.unwrap_or(self.now);
        let first_token = sequence.first_token.unwrap_or(self.now);
        let decode = self.now - first_token;
        match sequence.ending {
            Ending::Error => stats.finished_error += 1,
            Ending::Normal if request.stops => stats.finished_stop += 1,
            Ending::Normal | Ending::Corrupted => stats.finished_length += 1,
        }
        stats.corrupted += u64::from(sequence.ending == Ending::Corrupted);
        stats.http_2xx += 1;
        stats.e2e.observe(self.last_seen.max(self.now) - request.arrived);
        stats.queue.observe(scheduled - sequence.entered);
        stats.prefill.observe(first_token - scheduled);
        stats.decode.observe(decode);
        stats.inference.observe(self.now - scheduled);
        let gaps = f64::from(request.output.saturating_sub(1));
        stats.time_per_output_token.observe(if gaps > 0.0 { decode / gaps } else { 0.0 });
        stats.request_prompt_tokens.observe(f64::from(request.prompt));
        stats.request_generation_tokens.observe(if self.spec.pooling { 0.0 } else { f64::from(request.output) });
        if !self.spec.pooling {
            stats.request_max_tokens.observe(f64::from(request.max_tokens));
        }
        stats.request_computed_tokens.observe(f64::from(request.prompt - request.cached - sequence.external));
        stats.request_preemptions.observe(f64::from(sequence.preemptions));
        if let Some(offload) = &self.spec.offload {
            let computed = request.prompt - request.cached - sequence.external + request.output;
            stats.offloaded.1 += f64::from(computed) * offload.token_bytes;
        }
        // The API server sends tokens in order.
        let heard = self.last_seen.max(self.now).max(sequence.seen);
        let what = if sequence.ending == Ending::Error { Happening::Failed } else { Happening::Finished };
        note(&mut self.events, request, heard, what);
    }

    /// Drops the requests whose clients heard nothing for too long; no step may be under way.
    pub(super) fn drop_abandoned(&mut self) {
        let (before, unscheduled) = (self.in_flight(), self.unscheduled());
        let (now, timeout) = (self.now, self.read_timeout);
        let stays = |sequence: &Sequence| sequence.last_heard + timeout > now && sequence.request.leaves > now;
        for sequence in self.intake.iter().chain(&self.waiting).filter(|sequence| !stays(sequence)) {
            note(&mut self.events, &sequence.request, now, Happening::Abandoned);
        }
        self.intake.retain(stays);
        self.waiting.retain(stays);
        let decoders_left = self.last_end + timeout > now;
        let mut i = 0;
        while i < self.running.len() {
            let decodes = i < self.decoding;
            let sequence = &self.running[i];
            let stays = if decodes { decoders_left && sequence.request.leaves > now } else { stays(sequence) };
            if stays {
                i += 1;
                continue;
            }
            let sequence = self.running.remove(i);
            note(&mut self.events, &sequence.request, self.now, Happening::Abandoned);
            self.release(&sequence, decodes);
            self.decoding -= usize::from(decodes);
        }
        let gone = before - self.in_flight();
        self.stats.aborted += gone;
        self.stats.aborted_waiting += unscheduled - self.unscheduled();
        self.stats.http_2xx += gone;
        let silent = self.waiting.iter().chain(&self.running[self.decoding..]).chain(self.intake.iter());
        let heard = silent.fold(f64::INFINITY, |least, sequence| least.min(sequence.last_heard));
        let heard = if self.decoding > 0 { heard.min(self.last_end) } else { heard };
        let all = self.waiting.iter().chain(&self.running).chain(self.intake.iter());
        self.next_deadline = all.fold(heard + timeout, |least, sequence| least.min(sequence.request.leaves));
        self.report();
        self.stats.read_off(self.now, 0, false);
    }

    /// Requests that were never in the batch.
    fn unscheduled(&self) -> u64 {
        let new = self.waiting.iter().filter(|sequence| sequence.first_scheduled.is_none()).count();
        (self.intake.len() + new) as u64
    }

    /// Gives the blocks of a sequence that left `running` back.
    pub(super) fn release(&mut self, sequence: &Sequence, decodes: bool) {
        self.adapters.leave(sequence.adapter);
        let tokens = if decodes {
            self.boundary[sequence.phase()] -= 1;
            sequence.request.prompt + sequence.generated_at(self.step) - 1
        } else {
            sequence.context()
        };
        self.free_blocks += tokens.div_ceil(BLOCK_TOKENS);
    }
}

pub(super) fn note(events: &mut Vec<Event>, request: &Request, at: f64, what: Happening) {
    if request.ticket != 0 {
        events.push(Event { ticket: request.ticket, at, what });
    }
}
