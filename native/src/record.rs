//! One record, borrowed from the bytes that hold it. The twin is `headrace.records.twin.records`.

use std::fmt;

use crate::header::MAX_OFFSET;
use crate::varint::Cursor;

pub const MIN_RECORD_BYTES: usize = 7;
const MIN_HEADER_BYTES: usize = 2;

/// Why bytes are not the records they claim to be.
#[derive(Debug)]
pub enum Fault {
    Count(i64, usize),
    BaseOffset(i64),
    PastTheEnd,
    TooLarge(u32),
    Length(i32, usize),
    Empty,
    OffsetDelta(i32),
    Timestamp,
    Headers(i32, usize),
    NoHeaderKey,
    LeftInRecord(usize),
    LeftAfterRecords(usize),
    InRecord(usize, Box<Fault>),
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Count(count, size) => write!(out, "{count} records can not fit in {size} bytes"),
            Fault::BaseOffset(offset) => write!(out, "a base offset of {offset} is not an offset"),
            Fault::PastTheEnd => write!(out, "a number runs past the end"),
            Fault::TooLarge(bits) => write!(out, "a number does not fit in {bits} bits"),
            Fault::Length(length, left) => write!(out, "a length of {length} where {left} bytes are left"),
            Fault::Empty => write!(out, "a record of no bytes"),
            Fault::OffsetDelta(delta) => write!(out, "an offset delta of {delta}"),
            Fault::Timestamp => write!(out, "a timestamp out of range"),
            Fault::Headers(count, left) => write!(out, "{count} headers where {left} bytes are left"),
            Fault::NoHeaderKey => write!(out, "a header without a key"),
            Fault::LeftInRecord(left) => write!(out, "{left} bytes are left over"),
            Fault::LeftAfterRecords(left) => write!(out, "{left} bytes are left over after the last record"),
            Fault::InRecord(index, fault) => write!(out, "record {index}: {fault}"),
        }
    }
}

/// What a batch's header says of the records behind it.
#[derive(Clone, Copy)]
pub struct Run {
    pub count: i64,
    pub base_offset: i64,
    pub base_timestamp: i64,
    pub append_time_ms: Option<i64>,
}

pub struct Record<'a> {
    pub key: Option<&'a [u8]>,
    pub value: Option<&'a [u8]>,
    pub timestamp_ms: i64,
    pub offset: i64,
    pub header_count: usize,
}

/// What takes the records of a run, one after the other, each with its headers behind it.
pub trait Sink {
    type Error: From<Fault>;
    fn record(&mut self, record: &Record<'_>) -> Result<(), Self::Error>;
    fn header(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), Self::Error>;
}

impl Run {
    pub fn check(&self, body: &[u8]) -> Result<(), Fault> {
        if self.count < 0 || self.count as usize > body.len() / MIN_RECORD_BYTES {
            return Err(Fault::Count(self.count, body.len()));
        }
        if !(0..=MAX_OFFSET).contains(&self.base_offset) {
            return Err(Fault::BaseOffset(self.base_offset));
        }
        Ok(())
    }

    /// Hands every record of `body` to `sink`; what it got before an error is not to be used.
    pub fn decode<S: Sink>(&self, body: &[u8], sink: &mut S) -> Result<(), S::Error>
    where
        S::Error: InRecord,
    {
        self.check(body)?;
        let mut cursor = Cursor { bytes: body };
        for index in 0..self.count as usize {
            self.one(&mut cursor, sink).map_err(|error| error.in_record(index))?;
        }
        match cursor.left() {
            0 => Ok(()),
            left => Err(Fault::LeftAfterRecords(left).into()),
        }
    }

    #[inline]
    fn one<S: Sink>(&self, cursor: &mut Cursor<'_>, sink: &mut S) -> Result<(), S::Error> {
        let length = cursor.int()?;
        cursor.check(length)?;
        let mut inside = Cursor { bytes: cursor.take(length as usize) };
        if inside.left() == 0 {
            return Err(Fault::Empty.into());
        }
        inside.take(1);
        let timestamp_delta = inside.long()?;
        let offset_delta = inside.int()?;
        if offset_delta < 0 {
            return Err(Fault::OffsetDelta(offset_delta).into());
        }
        let timestamp_ms = self.base_timestamp.checked_add(timestamp_delta).ok_or(Fault::Timestamp)?;
        let key = inside.nullable()?;
        let value = inside.nullable()?;
        let count = inside.int()?;
        if count < 0 || count as usize > inside.left() / MIN_HEADER_BYTES {
            return Err(Fault::Headers(count, inside.left()).into());
        }
        sink.record(&Record {
            key,
            value,
            timestamp_ms: self.append_time_ms.unwrap_or(timestamp_ms),
            offset: self.base_offset + i64::from(offset_delta),
            header_count: count as usize,
        })?;
        for _ in 0..count {
            let key = inside.nullable()?.ok_or(Fault::NoHeaderKey)?;
            let value = inside.nullable()?;
            sink.header(key, value)?;
        }
        match inside.left() {
            0 => Ok(()),
            left => Err(Fault::LeftInRecord(left).into()),
        }
    }
}

/// An error that can say in which record it arose.
pub trait InRecord {
    fn in_record(self, index: usize) -> Self;
}

impl InRecord for Fault {
    fn in_record(self, index: usize) -> Self {
        Fault::InRecord(index, Box::new(self))
    }
}
