//! Writes records behind one another, the length of each in front of it.

use crate::header::HEADER_BYTES;
use crate::varint::size;

/// A batch in the making: room for its header, then records.
pub struct Writer {
    pub out: Vec<u8>,
}

impl Writer {
    pub fn with_room(bytes: usize) -> Writer {
        let mut out = Vec::with_capacity(HEADER_BYTES + bytes);
        out.resize(HEADER_BYTES, 0);
        Writer { out }
    }

    /// All of a record but its headers, which must follow, `header_count` of them in `header_bytes` bytes.
    #[inline]
    pub fn record(
        &mut self,
        index: usize,
        delta: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        (header_count, header_bytes): (usize, usize),
    ) {
        let inside = 1
            + size(delta)
            + size(index as i64)
            + nullable_size(key)
            + nullable_size(value)
            + size(header_count as i64)
            + header_bytes;
        self.out.reserve(LONGEST + inside);
        // The room is there: numbers and bytes go behind one another without asking for it each time.
        unsafe {
            let start = self.out.as_mut_ptr();
            let mut end = start.add(self.out.len());
            put(&mut end, inside as i64);
            *end = 0; // attributes
            end = end.add(1);
            put(&mut end, delta);
            put(&mut end, index as i64);
            put_nullable(&mut end, key);
            put_nullable(&mut end, value);
            put(&mut end, header_count as i64);
            self.out.set_len(end.offset_from(start) as usize);
        }
    }

    #[inline]
    pub fn header(&mut self, key: &[u8], value: Option<&[u8]>) {
        self.nullable(Some(key));
        self.nullable(value);
    }

    #[inline]
    pub fn number(&mut self, number: i64) {
        let mut rest = ((number << 1) ^ (number >> 63)) as u64;
        while rest > 0x7f {
            self.out.push((rest & 0x7f) as u8 | 0x80);
            rest >>= 7;
        }
        self.out.push(rest as u8);
    }

    #[inline]
    fn nullable(&mut self, content: Option<&[u8]>) {
        match content {
            None => self.out.push(1), // -1
            Some(content) => {
                self.number(content.len() as i64);
                self.out.extend_from_slice(content);
            }
        }
    }
}

const LONGEST: usize = 10; // bytes of a number

/// As `Writer::number`, at `end`, which must have room for it.
#[inline]
unsafe fn put(end: &mut *mut u8, number: i64) {
    let mut rest = ((number << 1) ^ (number >> 63)) as u64;
    unsafe {
        while rest > 0x7f {
            **end = (rest & 0x7f) as u8 | 0x80;
            *end = end.add(1);
            rest >>= 7;
        }
        **end = rest as u8;
        *end = end.add(1);
    }
}

#[inline]
unsafe fn put_nullable(end: &mut *mut u8, content: Option<&[u8]>) {
    unsafe {
        let Some(content) = content else { return put(end, -1) };
        put(end, content.len() as i64);
        end.copy_from_nonoverlapping(content.as_ptr(), content.len());
        *end = end.add(content.len());
    }
}

#[inline]
pub fn header_size(key: &[u8], value: Option<&[u8]>) -> usize {
    nullable_size(Some(key)) + nullable_size(value)
}

#[inline]
fn nullable_size(content: Option<&[u8]>) -> usize {
    content.map_or(1, |content| size(content.len() as i64) + content.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::varint::Cursor;

    #[test]
    fn every_number_reads_back_and_has_the_size_it_says() {
        for shift in 0..63 {
            for number in [1i64 << shift, -(1i64 << shift), (1i64 << shift) - 1, i64::MAX, i64::MIN, 0] {
                let mut writer = Writer::with_room(0);
                writer.number(number);
                let written = &writer.out[HEADER_BYTES..];
                assert_eq!(written.len(), size(number));
                assert_eq!(Cursor { bytes: written }.long().ok(), Some(number));
                assert!(Cursor { bytes: &written[1..] }.long().ok() != Some(number) || number == 0);
            }
        }
    }
}
