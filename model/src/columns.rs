//! Arrow columns value by value, for the codecs of stored rows and of keys: [`View`] reads them, [`Builder`] makes them.
//!
//! A type is matched once a value, as an enum, and nothing is allocated a row. Both know only the types of tables
//! (see [`crate::types`]); dates, times and timestamps are whole numbers of the width that Arrow gives them.

pub(crate) use build::{Builder, Nested};
pub(crate) use view::{Values, View, range};

mod build;
#[cfg(test)]
pub(crate) mod random;
mod view;
