//! Python records out of a batch's bytes, and into them. The twin is `headrace.records.twin.records`.

use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyByteArray, PyBytes, PyList, PyString, PyTuple, PyType};

use crate::buffer::View;
use crate::errors::{corrupt_batch, invalid_timestamp};
use crate::record::{Fault, InRecord, Record, Run, Sink};
use crate::tuple::NamedTuple;
use crate::writer::{Writer, header_size};

#[pyfunction]
pub fn decode_records<'py>(
    body: &Bound<'py, PyAny>,
    count: i64,
    base_offset: i64,
    base_timestamp: i64,
    append_time_ms: Option<i64>,
) -> PyResult<Bound<'py, PyList>> {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let py = body.py();
    let view = View::read(body)?;
    let class = NamedTuple::of(CLASS.import(py, "headrace.records.record", "Record")?);
    let mut sink = Records { py, class, list: PyList::empty(py), headers: Vec::new(), waiting: None };
    let run = Run { count, base_offset, base_timestamp, append_time_ms };
    run.decode(view.bytes(), &mut sink).map_err(|error| error.raise(py))?;
    sink.finish().map_err(|error| error.raise(py))?;
    Ok(sink.list)
}

/// Bytes that are not records, or Python refusing to make an object.
enum Stop {
    Fault(Fault),
    Python(PyErr),
}

impl Stop {
    fn raise(self, py: Python<'_>) -> PyErr {
        match self {
            Stop::Fault(fault) => corrupt_batch(py, fault),
            Stop::Python(error) => error,
        }
    }
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Stop {
        Stop::Fault(fault)
    }
}

impl From<PyErr> for Stop {
    fn from(error: PyErr) -> Stop {
        Stop::Python(error)
    }
}

impl InRecord for Stop {
    fn in_record(self, index: usize) -> Stop {
        match self {
            Stop::Fault(fault) => Stop::Fault(fault.in_record(index)),
            other => other,
        }
    }
}

type Nullable<'py> = Option<Bound<'py, PyBytes>>;

struct Records<'py> {
    py: Python<'py>,
    class: NamedTuple<'py>,
    list: Bound<'py, PyList>,
    headers: Vec<(Bound<'py, PyString>, Nullable<'py>)>,
    waiting: Option<(Nullable<'py>, Nullable<'py>, i64, i64)>, // a record whose headers are still to come
}

impl<'py> Records<'py> {
    fn bytes(&self, content: Option<&[u8]>) -> Nullable<'py> {
        content.map(|content| PyBytes::new(self.py, content))
    }

    fn finish(&mut self) -> Result<(), Stop> {
        if let Some((key, value, timestamp_ms, offset)) = self.waiting.take() {
            let headers = PyTuple::new(self.py, self.headers.drain(..))?;
            let fields = (key, value, headers, timestamp_ms, offset).into_pyobject(self.py)?;
            self.list.append(self.class.make(fields)?)?;
        }
        Ok(())
    }
}

impl Sink for Records<'_> {
    type Error = Stop;

    fn record(&mut self, record: &Record<'_>) -> Result<(), Stop> {
        self.finish()?;
        let (key, value) = (self.bytes(record.key), self.bytes(record.value));
        self.waiting = Some((key, value, record.timestamp_ms, record.offset));
        Ok(())
    }

    fn header(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), Stop> {
        let key = PyString::new(self.py, &String::from_utf8_lossy(key));
        let value = self.bytes(value);
        self.headers.push((key, value));
        Ok(())
    }
}

/// (offset and time of the first record wanted, the largest time, how many have no key)
type Surveyed = (Option<(i64, i64)>, Option<i64>, i64);

#[pyfunction]
pub fn survey(
    body: &Bound<'_, PyAny>,
    count: i64,
    base_offset: i64,
    base_timestamp: i64,
    append_time_ms: Option<i64>,
    from_offset: i64,
    timestamp_ms: i64,
) -> PyResult<Surveyed> {
    let py = body.py();
    let view = View::read(body)?;
    let bytes = view.bytes();
    let run = Run { count, base_offset, base_timestamp, append_time_ms };
    let mut sink = Survey { from_offset, timestamp_ms, found: None, largest: None, keyless: 0 };
    py.detach(|| run.decode(bytes, &mut sink)).map_err(|fault| corrupt_batch(py, fault))?;
    Ok((sink.found, sink.largest, sink.keyless))
}

struct Survey {
    from_offset: i64,
    timestamp_ms: i64,
    found: Option<(i64, i64)>,
    largest: Option<i64>,
    keyless: i64,
}

impl Sink for Survey {
    type Error = Fault;

    fn record(&mut self, record: &Record<'_>) -> Result<(), Fault> {
        self.keyless += i64::from(record.key.is_none());
        if record.offset >= self.from_offset {
            self.largest = self.largest.max(Some(record.timestamp_ms));
            if self.found.is_none() && record.timestamp_ms >= self.timestamp_ms {
                self.found = Some((record.offset, record.timestamp_ms));
            }
        }
        Ok(())
    }

    fn header(&mut self, _key: &[u8], _value: Option<&[u8]>) -> Result<(), Fault> {
        Ok(())
    }
}

#[pyfunction]
pub fn encode_records<'py>(records: &Bound<'py, PyAny>) -> PyResult<(Bound<'py, PyByteArray>, i64, i64)> {
    let mut writer = Writer::with_room(0);
    let (mut base, mut most) = (None, -1);
    for (index, record) in records.try_iter()?.enumerate() {
        let record = record?.cast_into::<PyTuple>()?;
        let (timestamp_ms, delta) = timestamp(&record.get_item(3)?, base)?;
        most = if base.is_none() { timestamp_ms } else { most.max(timestamp_ms) };
        base.get_or_insert(timestamp_ms);
        append(&mut writer, index, delta, &record)?;
    }
    Ok((PyByteArray::new(records.py(), &writer.out), base.unwrap_or(-1), most))
}

fn timestamp(given: &Bound<'_, PyAny>, base: Option<i64>) -> PyResult<(i64, i64)> {
    let refuse = || {
        let base = base.map_or_else(|| given.to_string(), |base| base.to_string());
        invalid_timestamp(given.py(), format!("{given} ms does not fit a batch that starts at {base} ms"))
    };
    match given.extract::<i64>() {
        Ok(time) => match time.checked_sub(base.unwrap_or(time)) {
            Some(delta) => Ok((time, delta)),
            None => Err(refuse()),
        },
        Err(error) if error.is_instance_of::<PyOverflowError>(given.py()) => Err(refuse()),
        Err(error) => Err(error),
    }
}

fn append(writer: &mut Writer, index: usize, delta: i64, record: &Bound<'_, PyTuple>) -> PyResult<()> {
    let (key, value) = (content(&record.get_item(0)?)?, content(&record.get_item(1)?)?);
    let mut headers = Vec::new();
    for pair in record.get_item(2)?.try_iter()? {
        let (name, given): (Bound<'_, PyString>, Bound<'_, PyAny>) = pair?.extract()?;
        headers.push((name.encode_utf8()?, content(&given)?));
    }
    let pairs = || headers.iter().map(|(name, given)| (name.as_bytes(), bytes(given)));
    let header_bytes = pairs().map(|(name, given)| header_size(name, given)).sum();
    writer.record(index, delta, bytes(&key), bytes(&value), (headers.len(), header_bytes));
    for (name, given) in pairs() {
        writer.header(name, given);
    }
    Ok(())
}

fn bytes(view: &Option<View>) -> Option<&[u8]> {
    view.as_ref().map(View::bytes)
}

fn content(given: &Bound<'_, PyAny>) -> PyResult<Option<View>> {
    if given.is_none() { Ok(None) } else { View::read(given).map(Some) }
}
