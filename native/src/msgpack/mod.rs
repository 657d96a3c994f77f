//! The msgpack protocol: what a client sent, command by command. The twin is `headrace.wire.msgpack.twin`.

mod commands;
mod deliveries;
mod forms;
mod parse;
mod records;
mod rewrite;
mod run;
mod skip;

pub use commands::{msgpack_commands, msgpack_smallest};
pub use deliveries::msgpack_deliveries;
pub use records::msgpack_records;
