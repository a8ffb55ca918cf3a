//! Models and simulation of Wadi: what is checked here is a protocol, not a machine.

pub mod takeover_model;
