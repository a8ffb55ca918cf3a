//! Models and simulation of Wadi.
//!
//! [`takeover_model`] is the takeover protocol alone, searched in all orders of its steps. The rest is the simulation:
//! the real store, on one thread, with simulated time, on stores that fail as a seed says. A [`world`] has [`gateway`]s and [`worker`]s
//! on shared [`objects`] and [`meta`], a net between them ([`peers`]), [`clients`] that use them, a [`director`] that makes trouble, and a [`checker`]
//! that knows what must hold. At the end the world has to [`settle`], and all objects are held against an [`accounting`]. The same seed gives the same [`trace`].

pub mod accounting;
pub mod checker;
pub mod clients;
pub mod clock;
pub mod director;
pub mod faults;
pub mod gateway;
pub mod meta;
pub mod objects;
pub mod owners;
pub mod peers;
pub mod report;
pub mod settle;
pub mod takeover_model;
pub mod trace;
pub mod worker;
pub mod world;

pub use report::{Report, Summary};
pub use world::{Flaw, Script, run};
