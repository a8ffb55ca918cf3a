//! Objects that are being filled: parts with their offsets, in the order in which they will be durable.

use std::collections::VecDeque;

use bytes::Bytes;
use tokio::sync::oneshot;
use tokio::time::Instant;
use wadi_model::{LogSeq, Offset};

use super::encode::Prepared;
use super::part::{AppendError, Appended};
use super::rows::Row;
use crate::container::Command;
use crate::context::Share;
use crate::keyed::Life;
use crate::keys::ids::IdRanges;

/// Where a part's answer goes.
pub(super) type Reply = oneshot::Sender<Result<Appended, AppendError>>;

/// A part that waits for its object.
#[derive(Debug)]
pub(super) struct Slot {
    pub part: Prepared,
    pub base_offset: Offset,
    pub arrived: Instant,
    pub reply: Reply,
    /// Held until the answer is given.
    pub share: Share,
    /// Its number among all parts of the shard, by which its pending rows are known.
    pub number: u64,
    /// The last state of each row that it changed.
    pub changed: Vec<(Bytes, Row)>,
    /// How long these rows live.
    pub life: Life,
    /// The ids that the bucket has left behind it, if it used some.
    pub ids: Option<IdRanges>,
}

/// A command for the shard that waits for its object.
#[derive(Debug)]
pub(super) struct Order {
    pub command: Box<Command>,
    /// Told where the command stands.
    pub reply: oneshot::Sender<Result<LogSeq, AppendError>>,
    /// Held until the answer is given.
    pub share: Share,
}

/// The parts and commands of one future object.
#[derive(Debug, Default)]
pub(super) struct OpenObject {
    pub slots: Vec<Slot>,
    pub orders: Vec<Order>,
    pub raw_bytes: usize,
}

/// The objects that wait, each below the size limit; the last one is still filled.
#[derive(Debug, Default)]
pub(super) struct OpenObjects(VecDeque<OpenObject>);

impl OpenObjects {
    /// Adds a part behind all others.
    pub(super) fn push(&mut self, slot: Slot, limit: usize) {
        let bytes = slot.part.raw_bytes;
        match self.0.back_mut() {
            Some(open) if open.raw_bytes + bytes <= limit => {
                open.raw_bytes += bytes;
                open.slots.push(slot);
            }
            _ => self.0.push_back(OpenObject { raw_bytes: bytes, slots: vec![slot], orders: Vec::new() }),
        }
    }

    /// Adds a command to the last object.
    pub(super) fn order(&mut self, order: Order) {
        match self.0.back_mut() {
            Some(open) => open.orders.push(order),
            None => self.0.push_back(OpenObject { orders: vec![order], ..OpenObject::default() }),
        }
    }

    /// The object that is to be flushed next.
    pub(super) fn take(&mut self) -> Option<OpenObject> {
        self.0.pop_front()
    }

    /// All of them, when nothing will be flushed any more.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = OpenObject> + '_ {
        self.0.drain(..)
    }

    /// Whether nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether more waits than the next object.
    pub(super) fn is_full(&self) -> bool {
        self.0.len() > 1
    }

    /// Raw bytes that wait for the next object.
    pub(super) fn waiting_bytes(&self) -> usize {
        self.0.front().map_or(0, |open| open.raw_bytes)
    }
}
