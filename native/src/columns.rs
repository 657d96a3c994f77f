//! Batches straight to Arrow's column buffers. The twin is `headrace.records.twin.columns`; the layout is drawn in
//! `headrace.records.buffers`.

use pyo3::prelude::*;

use crate::block::Block;
use crate::buffer::View;
use crate::errors::{corrupt_batch, limit_reached};
use crate::record::{Fault, InRecord, Record, Run, Sink};

const MAX_COLUMN_BYTES: usize = i32::MAX as usize;

type Numbers = (Option<Block>, Block, u8);
type Binary = (Option<Block>, Block, Block, u8);
type Columns = (usize, Numbers, Numbers, Binary, Binary, Numbers, Binary, Binary);

/// Lets other threads run meanwhile: this is never on the loop's hot path, and works on megabytes.
#[pyfunction]
pub fn decode_columns(py: Python<'_>, runs: Vec<Given<'_>>) -> PyResult<Columns> {
    let mut bodies = Vec::with_capacity(runs.len());
    for (body, count, base_offset, base_timestamp, append_time_ms) in runs {
        bodies.push((View::read(&body)?, Run { count, base_offset, base_timestamp, append_time_ms }));
    }
    let built = py.detach(|| build(&bodies));
    match built {
        Ok(builder) => Ok(builder.finish()),
        Err(Stop::Fault(fault)) => Err(corrupt_batch(py, fault)),
        Err(Stop::Full) => Err(limit_reached(
            py,
            format!("a column holds {MAX_COLUMN_BYTES} bytes at most: take fewer batches at once"),
        )),
    }
}

type Given<'py> = (Bound<'py, PyAny>, i64, i64, i64, Option<i64>);

enum Stop {
    Fault(Fault),
    Full,
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Stop {
        Stop::Fault(fault)
    }
}

impl InRecord for Stop {
    fn in_record(self, index: usize) -> Stop {
        match self {
            Stop::Fault(fault) => Stop::Fault(fault.in_record(index)),
            Stop::Full => Stop::Full,
        }
    }
}

fn build(bodies: &[(View, Run)]) -> Result<Builder, Stop> {
    let (mut rows, mut size) = (0, 0);
    for (body, run) in bodies {
        if run.check(body.bytes()).is_ok() {
            rows += run.count as usize;
            size += body.bytes().len();
        }
    }
    let mut builder = Builder::with_room(rows, size.min(MAX_COLUMN_BYTES));
    for (body, run) in bodies {
        run.decode(body.bytes(), &mut builder)?;
    }
    Ok(builder)
}

struct Builder {
    offsets: Vec<i64>,
    timestamps: Vec<i64>,
    keys: BinaryBuilder,
    values: BinaryBuilder,
    list_offsets: Vec<i32>,
    header_keys: BinaryBuilder,
    header_values: BinaryBuilder,
}

impl Builder {
    fn with_room(rows: usize, size: usize) -> Builder {
        let mut list_offsets = Vec::with_capacity(rows + 1);
        list_offsets.push(0);
        Builder {
            offsets: Vec::with_capacity(rows),
            timestamps: Vec::with_capacity(rows),
            keys: BinaryBuilder::with_room(rows, 0),
            values: BinaryBuilder::with_room(rows, size),
            list_offsets,
            header_keys: BinaryBuilder::with_room(0, 0),
            header_values: BinaryBuilder::with_room(0, 0),
        }
    }

    fn finish(self) -> Columns {
        (
            self.offsets.len(),
            (None, Block::longs(self.offsets), 0),
            (None, Block::longs(self.timestamps), 0),
            self.keys.finish(),
            self.values.finish(),
            (None, Block::ints(self.list_offsets), 0),
            self.header_keys.finish(),
            self.header_values.finish(),
        )
    }
}

impl Sink for Builder {
    type Error = Stop;

    #[inline]
    fn record(&mut self, record: &Record<'_>) -> Result<(), Stop> {
        self.offsets.push(record.offset);
        self.timestamps.push(record.timestamp_ms);
        self.keys.push(record.key)?;
        self.values.push(record.value)?;
        let headers = self.header_keys.rows() + record.header_count;
        self.list_offsets.push(i32::try_from(headers).map_err(|_| Stop::Full)?);
        Ok(())
    }

    fn header(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), Stop> {
        self.header_keys.push(Some(String::from_utf8_lossy(key).as_bytes()))?;
        self.header_values.push(value)
    }
}

struct BinaryBuilder {
    offsets: Vec<i32>,
    data: Vec<u8>,
    validity: Vec<u8>,
    nulls: usize,
}

impl BinaryBuilder {
    fn with_room(rows: usize, size: usize) -> BinaryBuilder {
        let mut offsets = Vec::with_capacity(rows + 1);
        offsets.push(0);
        let validity = Vec::with_capacity(rows.div_ceil(8));
        BinaryBuilder { offsets, data: Vec::with_capacity(size), validity, nulls: 0 }
    }

    fn rows(&self) -> usize {
        self.offsets.len() - 1
    }

    #[inline]
    fn push(&mut self, content: Option<&[u8]>) -> Result<(), Stop> {
        let row = self.rows();
        if row & 7 == 0 {
            self.validity.push(0);
        }
        match content {
            Some(content) => {
                if content.len() > MAX_COLUMN_BYTES - self.data.len() {
                    return Err(Stop::Full);
                }
                self.data.extend_from_slice(content);
                self.validity[row >> 3] |= 1 << (row & 7);
            }
            None => self.nulls += 1,
        }
        self.offsets.push(self.data.len() as i32);
        Ok(())
    }

    fn finish(self) -> Binary {
        let validity = (self.nulls > 0).then(|| Block::bytes(self.validity));
        (validity, Block::ints(self.offsets), Block::bytes(self.data), 0)
    }
}
