//! What compaction keeps of the records of one batch. The twin is `headrace.records.twin.compaction`.

use crate::record::{Fault, Record, Run, Sink};
use crate::table::Table;
use crate::varint::Cursor;

/// What is kept, and what is not.
#[derive(Clone, Copy)]
pub struct Rules {
    /// The table knows all keys before this offset; what comes after it stays.
    pub end_offset: i64,
    pub drop_tombstones: bool,
}

#[derive(Default)]
pub struct Verdict {
    keep: Vec<bool>,
    pub kept: usize,
    pub max_timestamp: i64,
    pub tombstones: usize,
}

struct Judge<'a> {
    table: &'a Table,
    rules: Rules,
    verdict: Verdict,
}

impl Sink for Judge<'_> {
    type Error = Fault;

    fn record(&mut self, record: &Record<'_>) -> Result<(), Fault> {
        let keep = record.offset >= self.rules.end_offset
            || record.key.is_some_and(|key| {
                let is_dead = record.value.is_none() && self.rules.drop_tombstones;
                !is_dead && self.table.get(self.table.hash(key)) <= record.offset
            });
        let verdict = &mut self.verdict;
        verdict.keep.push(keep);
        if keep {
            let is_first = verdict.kept == 0;
            verdict.max_timestamp =
                if is_first { record.timestamp_ms } else { verdict.max_timestamp.max(record.timestamp_ms) };
            verdict.kept += 1;
            verdict.tombstones += usize::from(record.value.is_none());
        }
        Ok(())
    }

    fn header(&mut self, _: &[u8], _: Option<&[u8]>) -> Result<(), Fault> {
        Ok(())
    }
}

pub fn judge(table: &Table, run: &Run, body: &[u8], rules: Rules) -> Result<Verdict, Fault> {
    let mut judge = Judge { table, rules, verdict: Verdict { max_timestamp: -1, ..Verdict::default() } };
    run.decode(body, &mut judge)?;
    Ok(judge.verdict)
}

/// Writes what the verdict keeps of a body that it was made from. `moved` is how much later the records' base
/// timestamp lies from now on.
pub fn write(out: &mut Vec<u8>, body: &[u8], verdict: &Verdict, moved: i64) -> Result<(), Fault> {
    let mut cursor = Cursor { bytes: body };
    for &keep in &verdict.keep {
        let whole = cursor.bytes;
        let length = cursor.int()?;
        cursor.check(length)?;
        let mut inside = Cursor { bytes: cursor.take(length as usize) };
        if !keep {
            continue;
        }
        if moved == 0 {
            out.extend_from_slice(&whole[..whole.len() - cursor.left()]);
            continue;
        }
        let attributes = inside.take(1)[0];
        let delta = inside.long()?.checked_sub(moved).ok_or(Fault::Timestamp)?;
        let size = 1 + crate::varint::size(delta) + inside.left();
        put(out, size as i64);
        out.push(attributes);
        put(out, delta);
        out.extend_from_slice(inside.bytes);
    }
    Ok(())
}

fn put(out: &mut Vec<u8>, number: i64) {
    let mut rest = ((number << 1) ^ (number >> 63)) as u64;
    while rest > 0x7f {
        out.push((rest & 0x7f) as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// The keys of a body, each with its offset, from an offset on.
pub struct Keys<'a> {
    pub table: &'a Table,
    pub from_offset: i64,
    pub found: Vec<((u64, u64), i64)>,
}

impl Sink for Keys<'_> {
    type Error = Fault;

    fn record(&mut self, record: &Record<'_>) -> Result<(), Fault> {
        if let Some(key) = record.key
            && record.offset >= self.from_offset
        {
            self.found.push((self.table.hash(key), record.offset));
        }
        Ok(())
    }

    fn header(&mut self, _: &[u8], _: Option<&[u8]>) -> Result<(), Fault> {
        Ok(())
    }
}
