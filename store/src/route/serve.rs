//! The other side: a gateway asks this process about a shard that it takes to be here.

use bytes::Bytes;
use futures::future::join_all;
use serde::Serialize;
use serde::de::DeserializeOwned;
use wadi_model::{Bucket, ErrorKind, Fault, Offset, ShardId, Told};

use super::message::{self, Malformed};
use super::rows::{PageHead, answer_forget, answer_page, answer_snapshot};
use super::{Call, Inner, Route, follow, keys, log, parcel, part, states};
use crate::shard::{AppendError, Appended, LookupError, Shard};

impl Fault for Malformed {
    fn kind(&self) -> ErrorKind {
        ErrorKind::Internal
    }

    fn code(&self) -> &str {
        "malformed_message"
    }
}

/// An answer that is ready to be written.
type Answer = Result<Vec<Bytes>, Told>;

/// Makes one answer of many kinds.
fn answer<A: Serialize, E: Fault>(said: Result<(A, Vec<Bytes>), E>) -> Answer {
    match said {
        Ok((head, sections)) => Ok(message::write(&Ok::<A, Told>(head), sections)),
        Err(error) => Err(Told::of(&error)),
    }
}

/// An answer without sections.
fn alone<A, E>(said: Result<A, E>) -> Result<(A, Vec<Bytes>), E> {
    said.map(|head| (head, Vec::new()))
}

impl Route {
    /// Answers another gateway. The answer says itself what went wrong; its pieces are sent one after the other.
    pub async fn answer(&self, shard: ShardId, call: Call, message: Bytes) -> Vec<Bytes> {
        match self.inner.answer(shard, call, &message).await {
            Ok(pieces) => pieces,
            Err(told) => message::write(&Err::<(), Told>(told), Vec::new()),
        }
    }
}

impl Inner {
    fn here(&self, shard: ShardId) -> Result<Shard, Told> {
        self.host.open_shard(shard).ok_or_else(|| Told::of(&LookupError::NotOwned))
    }

    /// Appends a part that another gateway has prepared.
    async fn append(
        &self,
        shard: ShardId,
        head: part::PartHead,
        sections: Vec<Bytes>,
    ) -> Result<Appended, Told> {
        self.check_place(shard, head.bucket())?;
        let (open, context) = (self.here(shard)?, self.host.context());
        let appended = async {
            let part = part::read(context, head, sections).await?;
            let share = context.memory.try_take(part.held()).ok_or(AppendError::Overloaded)?;
            open.append_prepared(part, share).await
        };
        appended.await.map_err(|error| Told::of(&error))
    }

    fn check_place(&self, shard: ShardId, bucket: &Bucket) -> Result<(), Told> {
        match bucket.shard(self.host.cluster().shards) == shard {
            true => Ok(()),
            false => Err(Told::of(&Malformed(format!("{bucket} is not of shard {shard}")))),
        }
    }

    /// What was asked, about a bucket that is of this shard.
    fn asked<H: DeserializeOwned>(
        &self,
        shard: ShardId,
        message: &Bytes,
        bucket: impl Fn(&H) -> Option<Bucket>,
    ) -> Result<(H, Vec<Bytes>), Told> {
        let (head, sections) = message::read::<H>(message).map_err(|e| Told::of(&e))?;
        if let Some(bucket) = bucket(&head) {
            self.check_place(shard, &bucket)?;
        }
        Ok((head, sections))
    }

    async fn answer(&self, shard: ShardId, call: Call, message: &Bytes) -> Answer {
        let context = self.host.context();
        match call {
            Call::Append => {
                let (head, sections) =
                    self.asked::<part::PartHead>(shard, message, |head| Some(*head.bucket()))?;
                self.append(shard, head, sections)
                    .await
                    .and_then(|appended| answer(alone(Ok::<_, AppendError>(appended))))
            }
            Call::AppendAll => {
                let (items, sections) = self.asked::<Vec<parcel::Item>>(shard, message, |_| None)?;
                let mut sections = sections.into_iter();
                let parts = items.into_iter().map(|parcel::Item { shard, part, sections: own }| {
                    let own = sections.by_ref().take(own).collect();
                    self.append(shard, part, own)
                });
                let parts: Vec<_> = parts.collect();
                answer(alone(Ok::<_, AppendError>(join_all(parts).await)))
            }
            Call::Lookup => {
                let (bucket, sections) = self.asked::<Bucket>(shard, message, |bucket| Some(*bucket))?;
                answer(keys::answer_lookup(&self.here(shard)?, bucket, &sections).await)
            }
            Call::Prefixes => {
                let (head, sections) =
                    self.asked::<keys::PrefixesHead>(shard, message, |head| Some(*head.bucket()))?;
                answer(keys::answer_prefixes(&self.here(shard)?, head, &sections).await)
            }
            Call::States => {
                let (buckets, _) = self.asked::<Vec<Bucket>>(shard, message, |_| None)?;
                answer(alone(states::answer(&self.here(shard)?, &buckets).await))
            }
            Call::Chunks => {
                let ((bucket, offset), _) =
                    self.asked::<(Bucket, Offset)>(shard, message, |(bucket, _)| Some(*bucket))?;
                answer(log::answer(&self.here(shard)?, &bucket, offset).await)
            }
            Call::OffsetAt => {
                let ((bucket, time), _) =
                    self.asked::<(Bucket, i64)>(shard, message, |(bucket, _)| Some(*bucket))?;
                answer(alone(self.here(shard)?.offset_at(&bucket, time).await))
            }
            Call::Wait => {
                let (known, _) = self.asked::<follow::Newest>(shard, message, |_| None)?;
                answer(alone(follow::answer(&self.here(shard)?, known).await))
            }
            Call::Snapshot => {
                let (bucket, _) = self.asked::<Bucket>(shard, message, |bucket| Some(*bucket))?;
                answer(alone(answer_snapshot(context, &self.kept, &self.here(shard)?, &bucket)))
            }
            Call::Page => {
                let (head, sections) = self.asked::<PageHead>(shard, message, |_| None)?;
                answer(answer_page(&self.kept, head, &sections).await)
            }
            Call::Forget => {
                let (id, _) = self.asked::<u128>(shard, message, |_| None)?;
                answer_forget(&self.kept, id);
                answer::<_, LookupError>(Ok(((), Vec::new())))
            }
        }
    }
}
