//! Sending files to a table, so that an interrupted run can continue and no row is written twice.
//!
//! A file is cut into *pieces*, always in the same places for the same file and piece size. Piece `n` is sent as
//! request `n` of a producer whose id is made of the table, the file and the piece size, so the server knows a piece
//! that it has seen. The journal notes what was acked; a later run skips that, after it has seen that the piece is still
//! the same. What was sent and not noted is sent again, and the server answers what it did the first time.
//!
//! Pieces are sent several at a time, in a window: piece `n` starts only when piece `n - concurrency` is acked. So all
//! pieces in doubt lie within the 64 requests that a bucket remembers, and a piece that is "too old" to the server is
//! one that it acked before.
//!
//! Into a primary-key table rows are upserted (or deleted, by their keys). There the order of rows of one key matters, so
//! pieces go one after the other unless the user says that they need not.
//!
//! `text` cuts NDJSON and CSV, `batches` Parquet and Arrow, both into [`piece::Piece`]s; `source` opens a file;
//! `journal` keeps the state; `send` does the work for one file; `progress` shows it.

pub(crate) mod batches;
pub(crate) mod fingerprint;
pub(crate) mod journal;
pub(crate) mod piece;
pub(crate) mod progress;
pub(crate) mod send;
pub(crate) mod source;
pub(crate) mod text;
