//! Kernels over bytes. Each has a Python twin in `headrace.records.twin`, which is its specification: same signature,
//! same answers, same errors with the same words, held together by differential tests.
//!
//! Bytes are not trusted, wherever they come from: every length is judged before it is used, nothing is allocated by a
//! count that the bytes could not hold, and arithmetic on what they say can not overflow.

mod batches;
mod block;
mod buffer;
mod checksum;
mod columns;
mod compaction;
mod errors;
mod header;
mod kafka;
mod kafka_fetch;
mod msgpack;
mod partitions;
mod record;
mod records;
mod room;
mod rows;
mod sift;
mod table;
mod tuple;
mod varint;
mod writer;

use pyo3::prelude::*;

/// Raised when a kernel's signature or meaning changes; the program uses only the version that it was written for.
const API_VERSION: u32 = 10;

#[pymodule]
mod headrace_native {
    use super::*;

    #[pymodule_export]
    use super::batches::{cut, pick, scan, stamp_append_time, validate};
    #[pymodule_export]
    use super::block::Block;
    #[pymodule_export]
    use super::checksum::crc32c;
    #[pymodule_export]
    use super::columns::decode_columns;
    #[pymodule_export]
    use super::compaction::OffsetMap;
    #[pymodule_export]
    use super::kafka::{kafka_single, kafka_single_answer};
    #[pymodule_export]
    use super::kafka_fetch::{kafka_single_fetch, kafka_single_fetch_head};
    #[pymodule_export]
    use super::msgpack::{msgpack_commands, msgpack_deliveries, msgpack_records, msgpack_smallest};
    #[pymodule_export]
    use super::partitions::key_partitions;
    #[pymodule_export]
    use super::records::{decode_records, encode_records, survey};
    #[pymodule_export]
    use super::room::room;
    #[pymodule_export]
    use super::rows::{encode_columns, encode_partitioned};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))?;
        module.add("API_VERSION", API_VERSION)
    }
}
