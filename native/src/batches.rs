//! Batches as wholes: check one, walk many. No record is looked at. The twin is `headrace.records.twin.batches`.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyList, PyTuple, PyType};

use crate::buffer::{View, range};
use crate::checksum;
use crate::errors::{corrupt_batch, unsupported_magic};
use crate::header::*;
use crate::tuple::NamedTuple;

const SHORT: &str = "short";
const BAD_CRC: &str = "the checksum does not match";

/// From here on a scan lets other threads run: recovery works in the background, beside the loop.
const DETACH_BYTES: usize = 64 << 10;

/// Stays attached whatever the size: it runs on the loop's own thread, where waiting to attach again would cost more
/// than the checksum of even a large batch.
#[pyfunction]
#[pyo3(signature = (buffer, at=0, end=None))]
pub fn validate<'py>(buffer: &Bound<'py, PyAny>, at: i64, end: Option<i64>) -> PyResult<Bound<'py, PyAny>> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let py = buffer.py();
    let view = View::read(buffer)?;
    let bytes = view.bytes();
    let batch = &bytes[range(bytes, at, end.unwrap_or(bytes.len() as i64))?];
    if let Some(&magic) = batch.get(MAGIC_AT).filter(|&&magic| magic != MAGIC as u8) {
        let text = format!("magic {magic} where RecordBatch v2 has {MAGIC}");
        return Err(if magic < MAGIC as u8 { unsupported_magic(py, text) } else { corrupt_batch(py, text) });
    }
    let header = acceptable(batch).map_err(|why| corrupt_batch(py, why))?;
    let class = CLASS.import(py, "headrace.records.header", "BatchHeader")?;
    NamedTuple::of(class).make(fields(py, &header)?)
}

pub fn acceptable(batch: &[u8]) -> Result<Header, String> {
    let Some(header) = header_at(batch, 0, batch.len()) else {
        return Err(format!("a batch needs {HEADER_BYTES} bytes of header, and there are {}", batch.len()));
    };
    if let Some(why) = header.implausible().or_else(|| header.unacceptable()) {
        return Err(why);
    }
    if header.size() != batch.len() {
        return Err(format!("the batch says {} bytes, and there are {}", header.size(), batch.len()));
    }
    if checksum::of(&batch[CRC_FROM..]) != header.crc {
        return Err(BAD_CRC.to_string());
    }
    Ok(header)
}

pub fn fields<'py>(py: Python<'py>, header: &Header) -> PyResult<Bound<'py, PyTuple>> {
    let numbers = [
        header.base_offset,
        i64::from(header.length),
        i64::from(header.leader_epoch),
        i64::from(header.magic),
        i64::from(header.crc),
        i64::from(header.attributes),
        i64::from(header.last_offset_delta),
        header.base_timestamp,
        header.max_timestamp,
        header.producer_id,
        i64::from(header.producer_epoch),
        i64::from(header.base_sequence),
        i64::from(header.record_count),
    ];
    PyTuple::new(py, numbers)
}

#[pyfunction]
pub fn scan<'py>(
    buffer: &Bound<'py, PyAny>,
    start: i64,
    end: i64,
    expected_offset: i64,
    check_crc: bool,
) -> PyResult<(Bound<'py, PyList>, usize, Option<String>)> {
    let py = buffer.py();
    let view = View::read(buffer)?;
    let bytes = view.bytes();
    let within = range(bytes, start, end)?;
    let (found, at, why) = if check_crc && within.len() >= DETACH_BYTES {
        py.detach(|| walk(bytes, within, expected_offset, check_crc))
    } else {
        walk(bytes, within, expected_offset, check_crc)
    };
    let list = PyList::empty(py);
    for (at, header) in found {
        list.append(scanned(at, &header).into_pyobject(py)?)?;
    }
    Ok((list, at, why))
}

type Walked = (Vec<(usize, Header)>, usize, Option<String>);

fn walk(bytes: &[u8], within: std::ops::Range<usize>, expected_offset: i64, check_crc: bool) -> Walked {
    let (mut at, end, mut expected) = (within.start, within.end, expected_offset);
    let mut found = Vec::new();
    while at < end {
        let Some(header) = header_at(bytes, at, end) else {
            return (found, at, Some(SHORT.to_string()));
        };
        if let Some(why) = header.implausible().or_else(|| header.misplaced(expected)) {
            return (found, at, Some(why));
        }
        if header.size() > end - at {
            return (found, at, Some(SHORT.to_string()));
        }
        if check_crc && checksum::of(&bytes[at + CRC_FROM..at + header.size()]) != header.crc {
            return (found, at, Some(BAD_CRC.to_string()));
        }
        found.push((at, header));
        at += header.size();
        expected = header.next_offset();
    }
    (found, at, None)
}

type Scanned = (usize, usize, i64, i64, i64, i32, i64, i16, i32, i16);

fn scanned(at: usize, header: &Header) -> Scanned {
    (
        at,
        header.size(),
        header.base_offset,
        header.next_offset(),
        header.max_timestamp,
        header.leader_epoch,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.attributes,
    )
}

#[pyfunction]
pub fn cut(
    buffer: &Bound<'_, PyAny>,
    start: i64,
    limit: i64,
    from_offset: i64,
    up_to_offset: i64,
) -> PyResult<(usize, usize, i64, bool)> {
    let view = View::read(buffer)?;
    let bytes = view.bytes();
    let within = range(bytes, start, limit)?;
    let (mut at, limit) = (within.start, within.end);
    let (mut begin, mut next_offset, mut expected, mut damaged) = (None, from_offset, -1, false);
    while let Some(header) = header_at(bytes, at, limit) {
        if header.implausible().is_some() || header.misplaced(expected).is_some() {
            damaged = true;
            break;
        }
        expected = header.next_offset();
        if begin.is_none() && expected > from_offset {
            begin = Some(at);
        }
        if header.base_offset >= up_to_offset || header.size() > limit - at {
            break;
        }
        at += header.size();
        if begin.is_some() {
            next_offset = expected;
        }
    }
    Ok((begin.unwrap_or(at), at, next_offset, damaged))
}

/// Stays attached, as `validate` does and for the same reason.
#[pyfunction]
pub fn pick(
    buffer: &Bound<'_, PyAny>,
    expected_offset: i64,
    from_offset: i64,
    up_to_offset: i64,
    max_bytes: i64,
) -> PyResult<Option<(usize, usize, i64)>> {
    let view = View::read(buffer)?;
    let bytes = view.bytes();
    let (mut at, mut expected, mut begin) = (0, expected_offset, None);
    while let Some(header) = header_at(bytes, at, bytes.len()) {
        if header.implausible().is_some()
            || header.misplaced(expected).is_some()
            || header.base_offset != expected
        {
            return Ok(None);
        }
        let end = at.saturating_add(header.size());
        if header.next_offset() > from_offset {
            let first = begin.unwrap_or(at);
            if header.base_offset >= up_to_offset || end > bytes.len() || (end - first) as i64 > max_bytes {
                break;
            }
            begin = Some(first);
            if checksum::of(&bytes[at + CRC_FROM..end]) != header.crc {
                return Ok(None);
            }
        }
        expected = header.next_offset();
        at = end.min(bytes.len());
    }
    Ok(begin.map(|begin| (begin, at, expected)))
}

#[pyfunction]
pub fn stamp_append_time(buffer: &Bound<'_, PyAny>, at: i64, size: i64, now_ms: i64) -> PyResult<()> {
    let mut view = View::write(buffer)?;
    let within = range(view.bytes(), at, at.saturating_add(size))?;
    if within.len() < HEADER_BYTES {
        return Err(PyValueError::new_err(format!("a batch has {HEADER_BYTES} bytes at least, not {size}")));
    }
    let batch = &mut view.bytes_mut()[within];
    batch[ATTRIBUTES_LOW_AT] |= LOG_APPEND_TIME;
    batch[MAX_TIMESTAMP_AT..MAX_TIMESTAMP_AT + 8].copy_from_slice(&now_ms.to_be_bytes());
    let crc = checksum::of(&batch[CRC_FROM..]);
    batch[CRC_AT..CRC_FROM].copy_from_slice(&crc.to_be_bytes());
    Ok(())
}
