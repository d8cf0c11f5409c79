//! What benches measured: files, tables and charts, for `ops`, which makes them, and for `compare`.

#![allow(dead_code, reason = "either bench uses a part")]

pub mod chart;
pub mod results;
pub mod summary;
