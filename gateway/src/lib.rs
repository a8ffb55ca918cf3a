//! The gateway: bodies in and out (draft).

pub mod body;
