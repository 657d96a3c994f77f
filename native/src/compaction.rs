//! Compaction's inner loops: which key was last written where, and what of a batch stays by that. The twin is
//! `headrace.records.twin.compaction`, which also says what the words mean.

use pyo3::prelude::*;
use pyo3::types::PyByteArray;

use crate::buffer::{View, range};
use crate::checksum;
use crate::errors::corrupt_batch;
use crate::header::*;
use crate::record::{Fault, Run};
use crate::sift::{Keys, Rules, judge, write};
use crate::table::{KEY_BYTES, Table};

const TRANSACTIONAL: i16 = 0x10;
const CONTROL: i16 = 0x20;
const DELETE_HORIZON: i16 = 0x40;
const SPECIAL: i16 = COMPRESSION_MASK | TRANSACTIONAL | CONTROL;
const NONE: i64 = -1;

#[pyclass(module = "headrace_native")]
pub struct OffsetMap {
    table: Table,
}

#[pymethods]
impl OffsetMap {
    #[classattr]
    const KEY_BYTES: usize = KEY_BYTES;

    #[new]
    fn new(capacity: usize) -> OffsetMap {
        OffsetMap { table: Table::new(capacity) }
    }

    fn __len__(&self) -> usize {
        self.table.len()
    }

    fn release(&mut self) {
        self.table = Table::new(0);
    }

    #[getter]
    fn capacity(&self) -> usize {
        self.table.capacity()
    }

    fn note(
        &mut self,
        body: &Bound<'_, PyAny>,
        count: i64,
        base_offset: i64,
        from_offset: i64,
    ) -> PyResult<i64> {
        let view = View::read(body)?;
        let run = Run { count, base_offset, base_timestamp: 0, append_time_ms: Some(0) };
        note(&mut self.table, &run, view.bytes(), from_offset)
            .map_err(|fault| corrupt_batch(body.py(), fault))
    }

    fn note_batches(
        &mut self,
        buffer: &Bound<'_, PyAny>,
        start: i64,
        end: i64,
        from_offset: i64,
    ) -> PyResult<(usize, i64)> {
        let view = View::read(buffer)?;
        let bytes = view.bytes();
        let within = range(bytes, start, end)?;
        let table = &mut self.table;
        Ok(buffer.py().detach(|| {
            let mut at = within.start;
            while let Some((header, run)) = plain(bytes, at, within.end) {
                let body = &bytes[at + HEADER_BYTES..at + header.size()];
                match note(table, &run, body, from_offset) {
                    Ok(NONE) => at += header.size(),
                    Ok(full_at) => return (at, full_at),
                    Err(_) => break,
                }
            }
            (at, NONE)
        }))
    }

    #[allow(clippy::too_many_arguments)] // as the twin has them
    fn sift<'py>(
        &self,
        body: &Bound<'py, PyAny>,
        count: i64,
        base_offset: i64,
        base_timestamp: i64,
        end_offset: i64,
        new_base_timestamp: i64,
        drop_tombstones: bool,
    ) -> PyResult<(Bound<'py, PyByteArray>, usize, i64, usize)> {
        let py = body.py();
        let view = View::read(body)?;
        let run = Run { count, base_offset, base_timestamp, append_time_ms: None };
        let rules = Rules { end_offset, drop_tombstones };
        let (out, verdict) = (|| {
            let verdict = judge(&self.table, &run, view.bytes(), rules)?;
            let moved = new_base_timestamp.checked_sub(base_timestamp).ok_or(Fault::Timestamp)?;
            let mut out = Vec::new();
            write(&mut out, view.bytes(), &verdict, moved)?;
            Ok::<_, Fault>((out, verdict))
        })()
        .map_err(|fault| corrupt_batch(py, fault))?;
        Ok((PyByteArray::new(py, &out), verdict.kept, verdict.max_timestamp, verdict.tombstones))
    }

    #[allow(clippy::too_many_arguments)]
    fn sift_batches<'py>(
        &self,
        buffer: &Bound<'py, PyAny>,
        start: i64,
        end: i64,
        end_offset: i64,
        now_ms: i64,
        horizon_ms: i64,
        last_offsets: &Bound<'py, PyAny>,
    ) -> PyResult<(usize, Bound<'py, PyByteArray>, usize, i64)> {
        let py = buffer.py();
        let (view, lasts) = (View::read(buffer)?, View::read(last_offsets)?);
        let bytes = view.bytes();
        let within = range(bytes, start, end)?;
        let lasts: Vec<i64> =
            lasts.bytes().chunks_exact(8).map(|raw| i64::from_ne_bytes(raw.try_into().unwrap())).collect();
        let table = &self.table;
        let (at, out, dropped, horizon) = py.detach(|| {
            let mut sifted = Sifted {
                table,
                end_offset,
                now_ms,
                horizon_ms,
                lasts,
                out: Vec::new(),
                dropped: 0,
                horizon: NONE,
            };
            let mut at = within.start;
            while let Some((header, run)) = plain(bytes, at, within.end) {
                if sifted.batch(&header, &run, &bytes[at..at + header.size()]).is_err() {
                    break;
                }
                at += header.size();
            }
            (at, sifted.out, sifted.dropped, sifted.horizon)
        });
        Ok((at, PyByteArray::new(py, &out), dropped, horizon))
    }
}

/// The batch at `at`, if it is whole, true, and nothing about it needs more than its records.
fn plain(bytes: &[u8], at: usize, end: usize) -> Option<(Header, Run)> {
    let header = header_at(bytes, at, end)?;
    if header.implausible().is_some() || header.misplaced(NONE).is_some() || header.size() > end - at {
        return None;
    }
    if header.attributes & SPECIAL != 0
        || checksum::of(&bytes[at + CRC_FROM..at + header.size()]) != header.crc
    {
        return None;
    }
    let run = Run {
        count: i64::from(header.record_count),
        base_offset: header.base_offset,
        base_timestamp: header.base_timestamp,
        append_time_ms: None,
    };
    Some((header, run))
}

fn note(table: &mut Table, run: &Run, body: &[u8], from_offset: i64) -> Result<i64, Fault> {
    let mut keys = Keys { table, from_offset, found: Vec::new() };
    run.decode(body, &mut keys)?;
    let found = keys.found;
    for (hash, offset) in found {
        if !table.put(hash, offset) {
            return Ok(offset);
        }
    }
    Ok(NONE)
}

struct Sifted<'a> {
    table: &'a Table,
    end_offset: i64,
    now_ms: i64,
    horizon_ms: i64,
    lasts: Vec<i64>,
    out: Vec<u8>,
    dropped: usize,
    horizon: i64,
}

impl Sifted<'_> {
    fn batch(&mut self, header: &Header, run: &Run, batch: &[u8]) -> Result<(), Fault> {
        let body = &batch[HEADER_BYTES..];
        let had_horizon = header.attributes & DELETE_HORIZON != 0;
        let rules = Rules {
            end_offset: self.end_offset,
            drop_tombstones: had_horizon && header.base_timestamp <= self.now_ms,
        };
        let verdict = judge(self.table, run, body, rules)?;
        // Not before all of it was compared with later keys: a tombstone's time runs from when the older records went.
        let is_compared = header.next_offset() <= self.end_offset;
        let sets_horizon = verdict.tombstones > 0 && !had_horizon && is_compared;
        let count = header.record_count as usize;
        let begin = self.out.len();
        if verdict.kept == count && !sets_horizon && count > 0 {
            self.out.extend_from_slice(batch);
        } else if verdict.kept > 0 {
            self.out.extend_from_slice(&batch[..HEADER_BYTES]);
            let moved =
                if sets_horizon { self.horizon_ms.checked_sub(header.base_timestamp) } else { Some(0) };
            let written =
                moved.ok_or(Fault::Timestamp).and_then(|moved| write(&mut self.out, body, &verdict, moved));
            if let Err(fault) = written {
                self.out.truncate(begin);
                return Err(fault);
            }
            let mut header = *header;
            if sets_horizon {
                header.attributes |= DELETE_HORIZON;
                header.base_timestamp = self.horizon_ms;
            }
            if header.attributes & i16::from(LOG_APPEND_TIME) == 0 {
                header.max_timestamp = verdict.max_timestamp;
            }
            header.record_count = verdict.kept as i32;
            header.seal(&mut self.out[begin..]);
        } else if self.is_last_of_producer(header) {
            self.out.extend_from_slice(&batch[..HEADER_BYTES]);
            let header = Header { record_count: 0, max_timestamp: NONE, ..*header };
            header.seal(&mut self.out[begin..]);
        }
        self.dropped += count - verdict.kept;
        if verdict.tombstones > 0 && (sets_horizon || had_horizon) {
            self.horizon =
                self.horizon.max(if sets_horizon { self.horizon_ms } else { header.base_timestamp });
        }
        Ok(())
    }

    fn is_last_of_producer(&self, header: &Header) -> bool {
        header.producer_id >= 0 && self.lasts.binary_search(&(header.next_offset() - 1)).is_ok()
    }
}
