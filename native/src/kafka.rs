//! A Produce request of one batch, which is what nearly every one is, read and checked in one go, and its answer. The
//! twins are in `headrace.wire.kafka.twin`.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyString, PyTuple, PyType};

use crate::batches::{acceptable, fields};
use crate::buffer::{View, range};
use crate::header::Header;
use crate::tuple::NamedTuple;

const PRODUCE: i16 = 0;
const OLDEST: i16 = 3;
const FLEXIBLE: i16 = 9;
const BY_ID: i16 = 13; // the newest, too
const ANSWER_BYTES: usize = 128; // enough for one with a name of usual length
const LONGEST_VARINT: u32 = 28; // the shift of a 32-bit number's last seven bits

struct Single<'a> {
    version: i16,
    correlation_id: i32,
    acks: i16,
    timeout_ms: i32,
    topic: &'a [u8], // a name, or an id
    partition: i32,
    start: usize,
    stop: usize,
    header: Header,
}

/// Bytes from a place on; whatever is not there is None.
pub struct Cursor<'a> {
    pub bytes: &'a [u8],
    pub at: usize,
}

impl<'a> Cursor<'a> {
    pub fn take(&mut self, size: usize) -> Option<&'a [u8]> {
        let taken = self.bytes.get(self.at..self.at.checked_add(size)?)?;
        self.at += size;
        Some(taken)
    }

    fn fixed<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    pub fn byte(&mut self) -> Option<u8> {
        Some(self.take(1)?[0])
    }

    pub fn int16(&mut self) -> Option<i16> {
        self.fixed().map(i16::from_be_bytes)
    }

    pub fn int32(&mut self) -> Option<i32> {
        self.fixed().map(i32::from_be_bytes)
    }

    pub fn int64(&mut self) -> Option<i64> {
        self.fixed().map(i64::from_be_bytes)
    }

    /// Who the client says it is, or that it says nothing.
    pub fn client_id(&mut self) -> Option<&'a [u8]> {
        match self.int16()? {
            -1 => Some(b""),
            size => self.take(usize::try_from(size).ok()?),
        }
    }

    fn uvarint(&mut self) -> Option<usize> {
        let (mut value, mut shift) = (0u64, 0);
        loop {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value as usize);
            }
            if shift >= LONGEST_VARINT {
                return None;
            }
            shift += 7;
        }
    }

    pub fn is(&mut self, wanted: &[u8]) -> Option<()> {
        (self.take(wanted.len())? == wanted).then_some(())
    }
}

fn read(bytes: &[u8], at: usize, end: usize) -> Option<Single<'_>> {
    let mut cursor = Cursor { bytes: &bytes[..end], at };
    let (key, version) = (cursor.int16()?, cursor.int16()?);
    if key != PRODUCE || !(OLDEST..=BY_ID).contains(&version) {
        return None;
    }
    let correlation_id = cursor.int32()?;
    cursor.client_id()?;
    let flexible = version >= FLEXIBLE;
    cursor.is(if flexible { b"\0\0" } else { b"\xff\xff" })?; // no tags and no transaction; no transaction
    let (acks, timeout_ms) = (cursor.int16()?, cursor.int32()?);
    let topic = if version == BY_ID {
        cursor.is(b"\x02")?;
        cursor.take(16)?
    } else if flexible {
        cursor.is(b"\x02")?;
        let size = usize::from(cursor.byte()?);
        cursor.take(if size < 0x80 { size.checked_sub(1)? } else { return None })?
    } else {
        cursor.is(b"\0\0\0\x01")?;
        let size = cursor.int16()?;
        cursor.take(usize::try_from(size).ok()?)?
    };
    cursor.is(if flexible { b"\x02" } else { b"\0\0\0\x01" })?;
    let partition = cursor.int32()?;
    let size =
        if flexible { cursor.uvarint()?.checked_sub(1)? } else { usize::try_from(cursor.int32()?).ok()? };
    let start = cursor.at;
    let batch = cursor.take(size)?;
    let stop = cursor.at;
    if flexible {
        cursor.is(b"\0\0\0")?; // tags of the partition, the topic, the request
    }
    if cursor.at != end {
        return None;
    }
    let header = acceptable(batch).ok()?;
    Some(Single { version, correlation_id, acks, timeout_ms, topic, partition, start, stop, header })
}

/// None: it is something else, or not as it should be; the general way finds out what.
#[pyfunction]
pub fn kafka_single<'py>(
    buffer: &Bound<'py, PyAny>,
    at: i64,
    end: i64,
) -> PyResult<Option<Bound<'py, PyTuple>>> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let py = buffer.py();
    let view = View::read(buffer)?;
    let bytes = view.bytes();
    let within = range(bytes, at, end)?;
    let Some(found) = read(bytes, within.start, within.end) else { return Ok(None) };
    let topic = if found.version == BY_ID {
        PyBytes::new(py, found.topic).into_any()
    } else {
        let Ok(name) = std::str::from_utf8(found.topic) else { return Ok(None) };
        PyString::new(py, name).into_any()
    };
    let class = CLASS.import(py, "headrace.records.header", "BatchHeader")?;
    let header = NamedTuple::of(class).make(fields(py, &found.header)?)?;
    (
        found.version,
        found.correlation_id,
        found.acks,
        found.timeout_ms,
        topic,
        found.partition,
        found.start,
        found.stop,
        header,
    )
        .into_pyobject(py)
        .map(Some)
}

/// The answer to a request that `kafka_single` has read, which went well.
#[pyfunction]
pub fn kafka_single_answer<'py>(
    single: &Bound<'py, PyTuple>,
    base_offset: i64,
    append_time_ms: i64,
    log_start_offset: i64,
) -> PyResult<Bound<'py, PyBytes>> {
    let version: i16 = single.get_item(0)?.extract()?;
    let correlation_id: i32 = single.get_item(1)?.extract()?;
    let topic = single.get_item(4)?;
    let partition: i32 = single.get_item(5)?.extract()?;
    let flexible = version >= FLEXIBLE;
    let mut out = Vec::with_capacity(ANSWER_BYTES);
    out.extend_from_slice(&[0; 4]); // the size, when it is known
    out.extend_from_slice(&correlation_id.to_be_bytes());
    out.extend_from_slice(if flexible { b"\0\x02" } else { b"\0\0\0\x01" });
    if let Ok(name) = topic.cast::<PyString>() {
        let name = name.to_cow()?;
        if flexible {
            out.push(name.len() as u8 + 1); // `kafka_single` takes none that needs a second byte
        } else {
            out.extend_from_slice(&(name.len() as i16).to_be_bytes());
        }
        out.extend_from_slice(name.as_bytes());
    } else {
        out.extend_from_slice(topic.cast::<PyBytes>()?.as_bytes());
    }
    out.extend_from_slice(if flexible { b"\x02" } else { b"\0\0\0\x01" });
    out.extend_from_slice(&partition.to_be_bytes());
    out.extend_from_slice(b"\0\0"); // no error
    out.extend_from_slice(&base_offset.to_be_bytes());
    out.extend_from_slice(&append_time_ms.to_be_bytes());
    if version >= 5 {
        out.extend_from_slice(&log_start_offset.to_be_bytes());
    }
    if flexible {
        out.extend_from_slice(b"\x01\0\0\0"); // no errors of records, no text, no tags of the partition and the topic
    } else if version == 8 {
        out.extend_from_slice(b"\0\0\0\0\xff\xff");
    }
    out.extend_from_slice(if flexible { b"\0\0\0\0\0" } else { b"\0\0\0\0" }); // not throttled, no tags
    let size = (out.len() - 4) as i32;
    out[..4].copy_from_slice(&size.to_be_bytes());
    Ok(PyBytes::new(single.py(), &out))
}
