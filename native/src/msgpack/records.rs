//! Records of any door as deliveries: text as text, other bytes as bytes, no value as nil, msgpack as what it is.

use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::rewrite::{rewrite, write_bytes, write_text};
use crate::buffer::View;
use crate::errors::corrupt_batch;
use crate::record::{Fault, Record, Run, Sink};

const CONTENT_TYPE: (&[u8], &[u8]) = (b"content-type", b"application/msgpack");
const NIL: u8 = 0xc0;

#[pyfunction]
pub fn msgpack_records<'py>(
    topic: &str,
    body: &Bound<'py, PyAny>,
    count: i64,
    base_offset: i64,
    base_timestamp: i64,
    first_offset: i64,
) -> PyResult<(Bound<'py, PyBytes>, usize)> {
    let py = body.py();
    let view = View::read(body)?;
    let mut start = vec![0x92];
    write_text(&mut start, topic.as_bytes());
    let out = Vec::with_capacity(view.bytes().len());
    let mut sink = Deliveries { start, first_offset, out, count: 0, value: None };
    let run = Run { count, base_offset, base_timestamp, append_time_ms: None };
    run.decode(view.bytes(), &mut sink).map_err(|fault| corrupt_batch(py, fault))?;
    Ok((PyBytes::new(py, &sink.out), sink.count))
}

struct Deliveries {
    start: Vec<u8>,
    first_offset: i64,
    out: Vec<u8>,
    count: usize,
    value: Option<(usize, usize)>, // of the last record: where it begins in `out`, and where its content does
}

impl Sink for Deliveries {
    type Error = Fault;

    fn record(&mut self, record: &Record<'_>) -> Result<(), Fault> {
        self.value = None;
        if record.offset < self.first_offset {
            return Ok(());
        }
        self.count += 1;
        self.out.extend_from_slice(&self.start);
        match record.value {
            None => self.out.push(NIL),
            Some(value) => {
                let begin = self.out.len();
                if std::str::from_utf8(value).is_ok() {
                    write_text(&mut self.out, value);
                } else {
                    write_bytes(&mut self.out, value);
                }
                self.value = Some((begin, self.out.len() - value.len()));
            }
        }
        Ok(())
    }

    fn header(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), Fault> {
        if key != CONTENT_TYPE.0 || value != Some(CONTENT_TYPE.1) {
            return Ok(());
        }
        if let Some((begin, content)) = self.value.take() {
            let mut smallest = Vec::new();
            let sent = &self.out[content..];
            if rewrite(sent, 0, &mut smallest, 0) == Ok(sent.len()) {
                self.out.truncate(begin);
                self.out.extend_from_slice(&smallest);
            }
        }
        Ok(())
    }
}
