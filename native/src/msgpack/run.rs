//! The Publish commands of one topic become one batch, and the bytes that every subscriber gets.

use std::cell::RefCell;
use std::collections::HashMap;
use std::mem::{replace, take};

use super::forms::Stop;
use super::rewrite::{rewrite, write_text};
use crate::checksum;
use crate::header::{CRC_AT, CRC_FROM, HEADER_BYTES, MAGIC, MAGIC_AT, PREFIX_BYTES};
use crate::varint::size;
use crate::writer::Writer;

/// One header, `content-type`: the count, then lengths and texts.
const HEADERS: &[u8; 34] = b"\x02\x18content-type\x26application/msgpack";
const RECORD_BYTES: usize = 64; // what a record has at most beside its value

/// Memory that runs are made in, used again: what was just written lies in the processor's cache.
const KEPT_ROOMS: usize = 16; // topics of one read, mostly
const KEPT_BYTES: usize = 1 << 20; // of one of them; what grew larger is given back

thread_local! {
    static ROOMS: RefCell<Vec<(Vec<u8>, Vec<u8>)>> = const { RefCell::new(Vec::new()) };
}

pub struct Run<'a> {
    pub topic: &'a str,
    start: Vec<u8>, // of each delivery
    pub count: usize,
    writer: Writer,
    pub deliveries: Vec<u8>,
    next: usize, // the run that was used after this one the last time
}

impl<'a> Run<'a> {
    fn new(topic: &'a str, next: usize) -> Run<'a> {
        let mut start = vec![0x92];
        write_text(&mut start, topic.as_bytes());
        let (mut out, deliveries) = ROOMS.with_borrow_mut(Vec::pop).unwrap_or_default();
        out.resize(HEADER_BYTES, 0);
        Run { topic, start, count: 0, writer: Writer { out }, deliveries, next }
    }

    fn append(&mut self, value_from: usize) {
        let value = &self.deliveries[value_from..];
        let (index, length) = (self.count as i64, value.len() as i64);
        let inside = 3 + size(index) + size(length) + value.len() + HEADERS.len();
        self.writer.out.reserve(10 + inside);
        self.writer.number(inside as i64);
        self.writer.out.extend_from_slice(&[0, 0]); // no attributes, no time after the first
        self.writer.number(index);
        self.writer.out.push(1); // no key
        self.writer.number(length);
        self.writer.out.extend_from_slice(value);
        self.writer.out.extend_from_slice(HEADERS);
        self.count += 1;
    }

    /// The batch as it is appended.
    pub fn seal(&mut self, now_ms: i64) -> &[u8] {
        let count = self.count as i32;
        let batch = &mut self.writer.out;
        let length = (batch.len() - PREFIX_BYTES) as i32;
        batch[8..12].copy_from_slice(&length.to_be_bytes());
        batch[12..16].copy_from_slice(&(-1i32).to_be_bytes()); // leader epoch
        batch[MAGIC_AT] = MAGIC as u8;
        batch[23..27].copy_from_slice(&(count - 1).to_be_bytes());
        batch[27..35].copy_from_slice(&now_ms.to_be_bytes());
        batch[35..43].copy_from_slice(&now_ms.to_be_bytes());
        batch[43..57].fill(0xff); // no producer
        batch[57..HEADER_BYTES].copy_from_slice(&count.to_be_bytes());
        let crc = checksum::of(&batch[CRC_FROM..]);
        batch[CRC_AT..CRC_FROM].copy_from_slice(&crc.to_be_bytes());
        batch
    }
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        let (mut out, mut deliveries) = (take(&mut self.writer.out), take(&mut self.deliveries));
        if out.capacity().max(deliveries.capacity()) <= KEPT_BYTES {
            out.clear();
            deliveries.clear();
            ROOMS.with_borrow_mut(|rooms| {
                if rooms.len() < KEPT_ROOMS {
                    rooms.push((out, deliveries));
                }
            });
        }
    }
}

/// Those of one stretch of commands, in the order of their topics' first commands.
#[derive(Default)]
pub struct Runs<'a> {
    runs: Vec<Run<'a>>,
    places: HashMap<&'a str, usize>,
    last: usize,
}

impl<'a> Runs<'a> {
    /// Adds the value at `value_at` to its topic's run; where it ends, and the run that was full before it.
    #[inline]
    pub fn add(
        &mut self,
        bytes: &[u8],
        topic: &'a str,
        value_at: usize,
        max_batch_bytes: usize,
    ) -> Result<(usize, Option<Run<'a>>), Stop> {
        let place = self.place(topic);
        let run = &mut self.runs[place];
        let before = run.deliveries.len();
        run.deliveries.extend_from_slice(&run.start);
        let value_from = run.deliveries.len();
        let end = match rewrite(bytes, value_at, &mut run.deliveries, 0) {
            Ok(end) => end,
            Err(stop) => {
                run.deliveries.truncate(before);
                return Err(stop);
            }
        };
        let value_bytes = run.deliveries.len() - value_from;
        if run.count > 0 && run.writer.out.len() + RECORD_BYTES + value_bytes > max_batch_bytes {
            let mut fresh = Run::new(topic, run.next);
            fresh.deliveries.extend_from_slice(&run.deliveries[before..]);
            run.deliveries.truncate(before);
            fresh.append(value_from - before);
            return Ok((end, Some(replace(run, fresh))));
        }
        run.append(value_from);
        Ok((end, None))
    }

    /// Topics often come in turn, or always the same: the one that came after the last one is looked at first.
    #[inline]
    fn place(&mut self, topic: &'a str) -> usize {
        if let Some(last) = self.runs.get(self.last) {
            let next = last.next;
            if self.runs.get(next).is_some_and(|run| run.topic == topic) {
                self.last = next;
                return next;
            }
        }
        let fresh = self.runs.len();
        let place = *self.places.entry(topic).or_insert(fresh);
        if place == fresh {
            self.runs.push(Run::new(topic, fresh));
        }
        self.runs[self.last].next = place;
        self.last = place;
        place
    }

    pub fn take(&mut self) -> impl Iterator<Item = Run<'a>> + use<'a> {
        self.places.clear();
        self.last = 0;
        take(&mut self.runs).into_iter().filter(|run| run.count > 0)
    }
}
