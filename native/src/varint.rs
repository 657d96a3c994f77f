//! Zigzag varints, and the walk over bytes that hold them. The twin is `headrace.records.twin.varint`.

use crate::record::Fault;

/// A place in `bytes`, which end where the record does.
#[derive(Clone, Copy)]
pub struct Cursor<'a> {
    pub bytes: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub fn left(&self) -> usize {
        self.bytes.len()
    }

    pub fn take(&mut self, size: usize) -> &'a [u8] {
        let (taken, rest) = self.bytes.split_at(size);
        self.bytes = rest;
        taken
    }

    #[inline]
    pub fn int(&mut self) -> Result<i32, Fault> {
        let zigzag = match self.bytes {
            [byte, rest @ ..] if *byte < 0x80 => {
                self.bytes = rest;
                u32::from(*byte)
            }
            _ => self.unsigned(32)? as u32,
        };
        Ok((zigzag >> 1) as i32 ^ -((zigzag & 1) as i32))
    }

    #[inline]
    pub fn long(&mut self) -> Result<i64, Fault> {
        let zigzag = match self.bytes {
            [byte, rest @ ..] if *byte < 0x80 => {
                self.bytes = rest;
                u64::from(*byte)
            }
            _ => self.unsigned(64)?,
        };
        Ok((zigzag >> 1) as i64 ^ -((zigzag & 1) as i64))
    }

    fn unsigned(&mut self, bits: u32) -> Result<u64, Fault> {
        let (mut result, mut shift) = (0u128, 0);
        for (index, &byte) in self.bytes.iter().enumerate() {
            result |= u128::from(byte & 0x7f) << shift;
            if result >> bits != 0 {
                return Err(Fault::TooLarge(bits));
            }
            if byte < 0x80 {
                self.bytes = &self.bytes[index + 1..];
                return Ok(result as u64);
            }
            shift += 7;
            if shift >= bits {
                return Err(Fault::TooLarge(bits));
            }
        }
        Err(Fault::PastTheEnd)
    }

    /// A length and as many bytes; None for the null that a length of -1 means.
    #[inline]
    pub fn nullable(&mut self) -> Result<Option<&'a [u8]>, Fault> {
        let length = self.int()?;
        if length == -1 {
            return Ok(None);
        }
        self.check(length)?;
        Ok(Some(self.take(length as usize)))
    }

    #[inline]
    pub fn check(&self, length: i32) -> Result<(), Fault> {
        if length < 0 || length as usize > self.left() {
            return Err(Fault::Length(length, self.left()));
        }
        Ok(())
    }
}

/// How many bytes a number takes.
#[inline]
pub fn size(number: i64) -> usize {
    let zigzag = ((number << 1) ^ (number >> 63)) as u64;
    (64 - (zigzag | 1).leading_zeros() as usize).div_ceil(7)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_does_not_fit_is_refused() {
        let five = [0xff, 0xff, 0xff, 0xff, 0x1f];
        assert!(matches!(Cursor { bytes: &five }.int(), Err(Fault::TooLarge(32))));
        assert!(matches!(Cursor { bytes: &[0x80; 20] }.int(), Err(Fault::TooLarge(32))));
        assert!(matches!(Cursor { bytes: &[0x80; 20] }.long(), Err(Fault::TooLarge(64))));
        assert!(matches!(Cursor { bytes: &[0x80; 3] }.int(), Err(Fault::PastTheEnd)));
    }
}
