//! Buckets that their owner has forgotten, since their table or partition was dropped.
//!
//! The log may still go on where such a bucket's rows ended: with a write that was in flight while it was dropped. Its
//! high watermark is gone, so what the log says is believed; for buckets that were not dropped a missing watermark stays damage.

use std::collections::BTreeSet;

use super::Replay;
use crate::keys::watermark::Watermark;
use crate::log::LogObject;
use crate::shard::takeover::TakeoverError;

impl Replay<'_> {
    /// Lets dropped buckets of an object go on where it says, if nothing else is known of them.
    pub(super) async fn begin_swept(&mut self, object: &LogObject) -> Result<(), TakeoverError> {
        // A bucket's first chunk says where it goes on; the others of the object follow that one.
        let mut met = BTreeSet::new();
        for chunk in &object.footer.chunks {
            let (bucket, at) = (chunk.bucket_id(), chunk.base_offset);
            if !met.insert(bucket) || at == 0 || self.watermarks.contains_key(&bucket) {
                continue;
            }
            let kept = self.context.tables.source().kept(&bucket).await;
            if kept.map_err(TakeoverError::Unavailable)?.is_none() {
                // How many rows there were is gone with them.
                let mark = Watermark { high: at, start: at, uncounted: true, ..Watermark::default() };
                self.watermarks.insert(bucket, mark);
            }
        }
        Ok(())
    }
}
