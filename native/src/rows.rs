//! Arrow's column buffers straight to a batch's records. The twin is `headrace.records.twin.columns`.
//!
//! What the columns say of themselves is not believed: every look-up is checked, as a table may come from anywhere.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyByteArray;

use crate::buffer::View;
use crate::errors::invalid_timestamp;
use crate::header::{HEADER_BYTES, MAX_BATCH_BYTES};
use crate::writer::{Writer, header_size};

type GivenNumbers<'py> = (Option<Bound<'py, PyAny>>, Bound<'py, PyAny>, i64);
pub type GivenBinary<'py> = (Option<Bound<'py, PyAny>>, Bound<'py, PyAny>, Bound<'py, PyAny>, i64);
type GivenHeaders<'py> = (GivenNumbers<'py>, GivenBinary<'py>, GivenBinary<'py>);

#[pyfunction]
#[allow(clippy::too_many_arguments)] // the twin's signature
pub fn encode_columns<'py>(
    py: Python<'py>,
    rows: i64,
    timestamp: Option<GivenNumbers<'py>>,
    key: Option<GivenBinary<'py>>,
    value: Option<GivenBinary<'py>>,
    headers: Option<GivenHeaders<'py>>,
    first: i64,
    max_bytes: i64,
    default_timestamp: i64,
) -> PyResult<(Bound<'py, PyByteArray>, usize, i64, i64)> {
    if first < 0 || first >= rows {
        return Err(PyValueError::new_err(format!("row {first} of {rows}")));
    }
    let table = Table {
        timestamp: timestamp.map(Numbers::of).transpose()?,
        key: key.map(Binary::of).transpose()?,
        value: value.map(Binary::of).transpose()?,
        headers: headers.map(Headers::of).transpose()?,
        default_timestamp,
    };
    let room = table.size_at_most(rows as usize).min(max_bytes.clamp(0, MAX_BATCH_BYTES.into()) as usize);
    let mut batch = Batch::with_room(room);
    for row in first..rows {
        let limit = if batch.rows == 0 { i64::MAX } else { max_bytes };
        if !table.append(&mut batch, row as usize, limit).map_err(|stop| stop.raise(py))? {
            break;
        }
    }
    Ok((PyByteArray::new(py, &batch.writer.out), batch.rows, batch.base, batch.most))
}

pub enum Stop {
    TooShort,
    Outside,
    NoHeaderKey,
    NotText,
    Timestamp(i64, i64),
}

impl Stop {
    pub fn raise(self, py: Python<'_>) -> PyErr {
        let text = match self {
            Stop::TooShort => "a column's buffer ends before its rows do",
            Stop::Outside => "a column's offsets point outside of its data",
            Stop::NoHeaderKey => "a header without a key",
            Stop::NotText => "a header's key is not UTF-8",
            Stop::Timestamp(time, base) => {
                let text = format!("{time} ms does not fit a batch that starts at {base} ms");
                return invalid_timestamp(py, text);
            }
        };
        PyValueError::new_err(text)
    }
}

struct Numbers {
    validity: Option<View>,
    data: View,
    start: usize,
}

pub struct Binary {
    offsets: Numbers,
    data: View,
}

struct Headers {
    lists: Numbers,
    keys: Binary,
    values: Binary,
}

impl Numbers {
    fn of((validity, data, start): GivenNumbers<'_>) -> PyResult<Numbers> {
        let start = usize::try_from(start).map_err(|_| Stop::TooShort.raise(data.py()))?;
        Ok(Numbers {
            validity: validity.as_ref().map(View::read).transpose()?,
            data: View::read(&data)?,
            start,
        })
    }

    #[inline]
    fn is_null(&self, row: usize) -> Result<bool, Stop> {
        let Some(validity) = &self.validity else { return Ok(false) };
        let index = self.start.checked_add(row).ok_or(Stop::TooShort)?;
        let byte = validity.bytes().get(index >> 3).ok_or(Stop::TooShort)?;
        Ok(byte >> (index & 7) & 1 == 0)
    }

    #[inline]
    fn bytes<const N: usize>(&self, row: usize) -> Result<[u8; N], Stop> {
        let from = self.start.checked_add(row).and_then(|index| index.checked_mul(N));
        let rest = from.and_then(|from| self.data.bytes().get(from..));
        rest.and_then(|rest| rest.first_chunk().copied()).ok_or(Stop::TooShort)
    }

    /// The two numbers between which a row's bytes or items lie.
    #[inline]
    fn between(&self, row: usize) -> Result<(i32, i32), Stop> {
        Ok((i32::from_ne_bytes(self.bytes(row)?), i32::from_ne_bytes(self.bytes(row + 1)?)))
    }
}

impl Binary {
    pub fn of((validity, offsets, data, start): GivenBinary<'_>) -> PyResult<Binary> {
        let data = View::read(&data)?;
        Ok(Binary { offsets: Numbers::of((validity, offsets, start))?, data })
    }

    #[inline]
    pub fn get(&self, row: usize) -> Result<Option<&[u8]>, Stop> {
        if self.offsets.is_null(row)? {
            return Ok(None);
        }
        let (begin, end) = self.offsets.between(row)?;
        if begin < 0 || end < begin {
            return Err(Stop::Outside);
        }
        let found = self.data.bytes().get(begin as usize..end as usize);
        found.map(Some).ok_or(Stop::Outside)
    }
}

impl Headers {
    fn of((lists, keys, values): GivenHeaders<'_>) -> PyResult<Headers> {
        Ok(Headers { lists: Numbers::of(lists)?, keys: Binary::of(keys)?, values: Binary::of(values)? })
    }

    fn range(&self, row: usize) -> Result<std::ops::Range<usize>, Stop> {
        if self.lists.is_null(row)? {
            return Ok(0..0);
        }
        let (begin, end) = self.lists.between(row)?;
        if begin < 0 || end < begin {
            return Err(Stop::Outside);
        }
        Ok(begin as usize..end as usize)
    }

    fn size(&self, range: std::ops::Range<usize>) -> Result<usize, Stop> {
        let mut size = 0;
        for index in range {
            let (key, value) = self.pair(index)?;
            size += header_size(key, value);
        }
        Ok(size)
    }

    fn pair(&self, index: usize) -> Result<(&[u8], Option<&[u8]>), Stop> {
        let key = self.keys.get(index)?.ok_or(Stop::NoHeaderKey)?;
        if std::str::from_utf8(key).is_err() {
            return Err(Stop::NotText);
        }
        Ok((key, self.values.get(index)?))
    }
}

/// Rows as batches of the partitions that they go to, each partition's in their order.
#[pyfunction]
#[allow(clippy::too_many_arguments)] // the twin's signature
pub fn encode_partitioned<'py>(
    py: Python<'py>,
    rows: i64,
    timestamp: Option<GivenNumbers<'py>>,
    key: Option<GivenBinary<'py>>,
    value: Option<GivenBinary<'py>>,
    headers: Option<GivenHeaders<'py>>,
    partitions: Bound<'py, PyAny>,
    count: i64,
    max_bytes: i64,
    default_timestamp: i64,
) -> PyResult<Vec<Encoded<'py>>> {
    if rows < 0 || !(1..=MAX_PARTITIONS).contains(&count) {
        return Err(PyValueError::new_err(format!("{rows} rows for {count} partitions")));
    }
    let (rows, count) = (rows as usize, count as usize);
    let table = Table {
        timestamp: timestamp.map(Numbers::of).transpose()?,
        key: key.map(Binary::of).transpose()?,
        value: value.map(Binary::of).transpose()?,
        headers: headers.map(Headers::of).transpose()?,
        default_timestamp,
    };
    let goals = Numbers { validity: None, data: View::read(&partitions)?, start: 0 };
    let mut is_used = vec![false; count];
    for row in 0..rows {
        let goal = i32::from_ne_bytes(goals.bytes(row).map_err(|stop| stop.raise(py))?);
        match usize::try_from(goal).ok().and_then(|goal| is_used.get_mut(goal)) {
            Some(used) => *used = true,
            None => {
                return Err(PyValueError::new_err(format!("row {row} goes to partition {goal} of {count}")));
            }
        }
    }
    let used = is_used.iter().filter(|used| **used).count().max(1);
    let room = (table.size_at_most(rows) / used).min(max_bytes.clamp(0, MAX_BATCH_BYTES.into()) as usize);
    let mut open: Vec<Option<Batch>> = (0..count).map(|_| None).collect();
    let mut found = Vec::new();
    for row in 0..rows {
        let goal = i32::from_ne_bytes(goals.bytes(row).map_err(|stop| stop.raise(py))?) as usize;
        let batch = open[goal].get_or_insert_with(|| Batch::with_room(room));
        let limit = if batch.rows == 0 { i64::MAX } else { max_bytes };
        if !table.append(batch, row, limit).map_err(|stop| stop.raise(py))? {
            found.push(batch.finish(py, goal));
            table.append(batch, row, i64::MAX).map_err(|stop| stop.raise(py))?;
        }
    }
    let rest = open.into_iter().enumerate();
    found.extend(rest.filter_map(|(goal, batch)| batch.map(|mut batch| batch.finish(py, goal))));
    Ok(found)
}

const MAX_PARTITIONS: i64 = 1 << 20; // of one topic: more than anybody has, and little to keep count of

type Encoded<'py> = (usize, Bound<'py, PyByteArray>, usize, i64, i64);

struct Table {
    timestamp: Option<Numbers>,
    key: Option<Binary>,
    value: Option<Binary>,
    headers: Option<Headers>,
    default_timestamp: i64,
}

struct Batch {
    writer: Writer,
    rows: usize,
    base: i64,
    most: i64,
}

impl Batch {
    fn with_room(bytes: usize) -> Batch {
        Batch { writer: Writer::with_room(bytes), rows: 0, base: 0, most: 0 }
    }

    /// What it holds; it is empty again then, in the same memory: new memory costs more than the copy.
    fn finish<'py>(&mut self, py: Python<'py>, partition: usize) -> Encoded<'py> {
        let rows = std::mem::take(&mut self.rows);
        let body = PyByteArray::new(py, &self.writer.out);
        self.writer.out.truncate(HEADER_BYTES);
        (partition, body, rows, self.base, self.most)
    }
}

const ROW_BYTES: usize = 32; // what a short record's numbers take at most

impl Table {
    /// A guess for the room to start with: all data, and each row's own numbers.
    fn size_at_most(&self, rows: usize) -> usize {
        let data = |column: &Option<Binary>| column.as_ref().map_or(0, |column| column.data.bytes().len());
        let headers = self
            .headers
            .as_ref()
            .map_or(0, |columns| columns.keys.data.bytes().len() + columns.values.data.bytes().len());
        rows.saturating_mul(ROW_BYTES).saturating_add(data(&self.key) + data(&self.value) + headers)
    }

    #[inline]
    fn time(&self, row: usize) -> Result<i64, Stop> {
        match &self.timestamp {
            Some(column) if !column.is_null(row)? => Ok(i64::from_ne_bytes(column.bytes(row)?)),
            _ => Ok(self.default_timestamp),
        }
    }

    /// False when the row would make the batch larger than `limit`: it is as it was then.
    #[inline]
    fn append(&self, batch: &mut Batch, row: usize, limit: i64) -> Result<bool, Stop> {
        let time = self.time(row)?;
        let base = if batch.rows == 0 { time } else { batch.base };
        let delta = time.checked_sub(base).ok_or(Stop::Timestamp(time, base))?;
        let key = self.key.as_ref().map_or(Ok(None), |column| column.get(row))?;
        let value = self.value.as_ref().map_or(Ok(None), |column| column.get(row))?;
        let before = batch.writer.out.len();
        match &self.headers {
            None => batch.writer.record(batch.rows, delta, key, value, (0, 0)),
            Some(columns) => {
                let range = columns.range(row)?;
                let header_bytes = columns.size(range.clone())?;
                batch.writer.record(batch.rows, delta, key, value, (range.len(), header_bytes));
                for index in range {
                    let (key, value) = columns.pair(index)?;
                    batch.writer.header(key, value);
                }
            }
        }
        if batch.writer.out.len() as i64 > limit {
            batch.writer.out.truncate(before);
            return Ok(false);
        }
        batch.most = if batch.rows == 0 { time } else { batch.most.max(time) };
        batch.base = base;
        batch.rows += 1;
        Ok(true)
    }
}
