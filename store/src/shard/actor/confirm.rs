//! What a durable object changes, in this order: what readers see, what the database will have, the shard's state, the acks.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use wadi_model::Offset;

use super::{Actor, refuse};
use crate::container::{BucketRewrite, Footer, Header, SealedObject};
use crate::flaws::{self, Flaw};
use crate::shard::flush::{FlushResult, Flushed};
use crate::shard::group::requests_in;
use crate::shard::open::{Order, Slot};
use crate::shard::packs::obey;
use crate::shard::part::{AppendError, Appended};
use crate::shard::rows::State;

impl Actor {
    pub(super) fn flushed(&mut self, flushed: Flushed) -> Result<(), String> {
        self.put_in_flight = false;
        let Flushed { mut slots, orders, result, put_began, put } = flushed;
        match result {
            FlushResult::Durable { object, live } => {
                let live = live && self.shared.claim.is_live();
                if !live && !flaws::has(Flaw::AcksLate) {
                    refuse(slots, orders, &AppendError::OutcomeUnknown);
                    return Err("the lease ran out before the ack".into());
                }
                let seq = object.header.seq;
                self.confirm(*object, &mut slots, &orders)?;
                self.ack(slots, put_began, put);
                for Order { reply, share, .. } in orders {
                    drop(share);
                    drop(reply.send(Ok(seq)));
                }
                Ok(())
            }
            FlushResult::NotSent(error) => {
                refuse(slots, orders, &error);
                Err(format!("an object could not be made: {error}"))
            }
            FlushResult::InDoubt(why) => {
                refuse(slots, orders, &AppendError::OutcomeUnknown);
                Err(why)
            }
        }
    }

    /// Makes a durable object part of the shard.
    fn confirm(&mut self, object: SealedObject, slots: &mut [Slot], orders: &[Order]) -> Result<(), String> {
        let header = object.header;
        let chunk_count = object.footer.chunks.len().max(1);
        let mean = object.len() / chunk_count;
        self.mean_chunk = if self.mean_chunk == usize::MAX { mean } else { (self.mean_chunk * 3 + mean) / 4 };
        let footer = Arc::new(object.footer);
        for (key, once, request) in requests_in(&footer) {
            self.producers.confirm(key, once, request, header.seq, header.time);
        }
        // In the order of the parts, so that the last change of a row is its state.
        slots.sort_by_key(|slot| slot.number);
        // Rows before bounds: who reads rows finds all that is below a high watermark seen before.
        for slot in slots.iter_mut() {
            let changed = std::mem::take(&mut slot.changed);
            self.pending.confirmed(slot.number, &changed);
            let state = |(key, row)| (key, State::written(row, &slot.life, header.time));
            let changed: Vec<_> = changed.into_iter().map(state).collect();
            self.group.add_rows(&changed);
            self.shared.rows.confirm(header.seq, changed);
        }
        let view = &self.shared.view;
        let grown = slots.iter().map(|slot| (slot.part.bucket, slot.grown));
        view.publish(header.seq, &footer, object.chunks.into(), grown);
        self.group.add(&header, &footer, object.footer_bytes, |bucket| view.watermark(bucket));
        for slot in slots {
            if let Some(left) = slot.ids.take() {
                self.ids.logged(&slot.part.bucket, &left);
                self.group.add_ids(slot.part.bucket, left);
                self.take_waited_for(slot.part.bucket);
            }
        }
        self.obey(&header, &footer, orders)?;
        self.next_seq = header.seq.next();
        self.shared.confirmed.send_replace(header.seq);
        Ok(())
    }

    /// Applies the shard's commands that an object brings, and counts the object.
    fn obey(&mut self, header: &Header, footer: &Footer, orders: &[Order]) -> Result<(), String> {
        let mut packs = self.shared.packs.write();
        packs.add(header, footer);
        for Order { command, .. } in orders {
            let view = &self.shared.view;
            let marks = |change: &BucketRewrite| {
                let bucket = change.bucket_id();
                if change.gone {
                    // Its offsets go on: writes to it may be on their way.
                    view.forget(&bucket);
                    return None;
                }
                view.trim_log(&bucket, Offset(change.log_start?));
                Some(view.watermark(&bucket))
            };
            obey(&mut packs, &mut self.group, header.seq, command, marks).map_err(|e| e.to_string())?;
        }
        self.group.add_entries([packs.packing_entry()].map(|(key, value)| (key, Some(value))));
        Ok(())
    }

    fn ack(&self, slots: Vec<Slot>, put_began: Instant, put: Duration) {
        let metrics = &self.shared.context.metrics;
        for Slot { part, base_offset, arrived, reply, share, .. } in slots {
            metrics.acked_rows.inc_by(u64::from(part.rows));
            metrics.acked_bytes.inc_by(part.raw_bytes as u64);
            metrics.ack_seconds.observe(arrived.elapsed().as_secs_f64());
            let queued = put_began.saturating_duration_since(arrived);
            metrics.queue_seconds.observe(queued.as_secs_f64());
            let appended = Appended { base_offset, rows: part.rows, again: false, queued, put };
            drop(share);
            drop(reply.send(Ok(appended)));
        }
    }
}
