//! A Fetch of one partition by a consumer without a session, and the head of its answer. The twins are in
//! `headrace.wire.kafka.fetch_single`.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};

use crate::buffer::{View, range};
use crate::kafka::Cursor;

const FETCH: i16 = 1;
const BY_ID: i16 = 13;
const REPLICA_STATE: i16 = 15;
const NEWEST: i16 = 18;
const CONSUMER: i32 = -1;
const NO_EPOCH: i32 = -1;
const READ_COMMITTED: i8 = 1;
const NO_SESSION: &[u8] = b"\0\0\0\0\xff\xff\xff\xff"; // no id, and no wish for one
const REST: &[u8] = b"\0\0\x01\x01\0"; // no tags twice, nothing forgotten, no rack, no tags
const HEAD_BYTES: usize = 96;
const END_BYTES: i64 = 3; // no tags of the partition, the topic, the answer

struct Asked<'a> {
    correlation_id: i32,
    min_bytes: i32,
    max_bytes: i32,
    isolation: i8,
    topic_id: &'a [u8],
    partition: i32,
    leader_epoch: i32,
    offset: i64,
    partition_max_bytes: i32,
}

fn read(bytes: &[u8], at: usize, end: usize) -> Option<Asked<'_>> {
    let mut cursor = Cursor { bytes: &bytes[..end], at };
    let (key, version) = (cursor.int16()?, cursor.int16()?);
    if key != FETCH || !(BY_ID..=NEWEST).contains(&version) {
        return None;
    }
    let correlation_id = cursor.int32()?;
    std::str::from_utf8(cursor.client_id()?).ok()?;
    cursor.is(b"\0")?;
    if version < REPLICA_STATE && cursor.int32()? != CONSUMER {
        return None;
    }
    cursor.take(4)?; // how long it would wait
    let (min_bytes, max_bytes, isolation) = (cursor.int32()?, cursor.int32()?, cursor.byte()? as i8);
    cursor.is(NO_SESSION)?;
    cursor.is(b"\x02")?;
    let topic_id = cursor.take(16)?;
    cursor.is(b"\x02")?;
    let (partition, leader_epoch, offset) = (cursor.int32()?, cursor.int32()?, cursor.int64()?);
    if cursor.int32()? != NO_EPOCH {
        return None;
    }
    cursor.take(8)?; // a follower's log start offset
    let partition_max_bytes = cursor.int32()?;
    cursor.is(REST)?;
    (cursor.at == end).then_some(Asked {
        correlation_id,
        min_bytes,
        max_bytes,
        isolation,
        topic_id,
        partition,
        leader_epoch,
        offset,
        partition_max_bytes,
    })
}

/// None: it is something else; the general way finds out what.
#[pyfunction]
pub fn kafka_single_fetch<'py>(
    buffer: &Bound<'py, PyAny>,
    at: i64,
    end: i64,
) -> PyResult<Option<Bound<'py, PyTuple>>> {
    let py = buffer.py();
    let view = View::read(buffer)?;
    let bytes = view.bytes();
    let within = range(bytes, at, end)?;
    let Some(asked) = read(bytes, within.start, within.end) else { return Ok(None) };
    (
        asked.correlation_id,
        asked.min_bytes,
        asked.max_bytes,
        asked.isolation,
        PyBytes::new(py, asked.topic_id),
        asked.partition,
        asked.leader_epoch,
        asked.offset,
        asked.partition_max_bytes,
    )
        .into_pyobject(py)
        .map(Some)
}

/// What stands before the records in the answer to a request that `kafka_single_fetch` has read, when all went well.
#[pyfunction]
pub fn kafka_single_fetch_head<'py>(
    asked: &Bound<'py, PyTuple>,
    high_watermark: i64,
    stable_offset: i64,
    log_start_offset: i64,
    size: i64,
) -> PyResult<Bound<'py, PyBytes>> {
    let correlation_id: i32 = asked.get_item(0)?.extract()?;
    let isolation: i8 = asked.get_item(3)?.extract()?;
    let topic_id = asked.get_item(4)?;
    let partition: i32 = asked.get_item(5)?.extract()?;
    let mut out = Vec::with_capacity(HEAD_BYTES);
    out.extend_from_slice(&[0; 4]); // the size, when it is known
    out.extend_from_slice(&correlation_id.to_be_bytes());
    out.extend_from_slice(b"\0\0\0\0\0\0\0\0\0\0\0\x02"); // no tags, not throttled, no error, no session, one topic
    out.extend_from_slice(topic_id.cast::<PyBytes>()?.as_bytes());
    out.push(2); // one partition
    out.extend_from_slice(&partition.to_be_bytes());
    out.extend_from_slice(b"\0\0"); // no error
    out.extend_from_slice(&high_watermark.to_be_bytes());
    out.extend_from_slice(&stable_offset.to_be_bytes());
    out.extend_from_slice(&log_start_offset.to_be_bytes());
    out.push(u8::from(isolation == READ_COMMITTED)); // aborted transactions: none, or not asked for
    out.extend_from_slice(b"\xff\xff\xff\xff"); // nobody preferred
    let mut length = size as u64 + 1;
    while length >= 0x80 {
        out.push(length as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
    let whole = (out.len() as i64 - 4 + size + END_BYTES) as i32;
    out[..4].copy_from_slice(&whole.to_be_bytes());
    Ok(PyBytes::new(asked.py(), &out))
}
