//! Values in their smallest form. Floats stay as long as they are.

use super::forms::{Fault, Kind, MAX_DEPTH, Stop, content, head, number, text};

/// Writes the value at `at`; where it ends.
pub fn rewrite(bytes: &[u8], at: usize, out: &mut Vec<u8>, depth: usize) -> Result<usize, Stop> {
    let &first = bytes.get(at).ok_or(Stop::Short)?;
    if matches!(first, 0x00..=0x7f | 0xe0..=0xff | 0xc0 | 0xc2 | 0xc3) {
        out.push(first);
        return Ok(at + 1);
    }
    let head = head(bytes, at)?;
    let after = head.after;
    match head.kind {
        Kind::Int => {
            let size = after - at - 1;
            let raw = number(bytes, at + 1, size)?;
            if first < 0xd0 {
                unsigned(out, raw);
            } else {
                let shift = 64 - 8 * size as u32;
                signed(out, ((raw << shift) as i64) >> shift);
            }
            Ok(after)
        }
        Kind::Array | Kind::Map => {
            if depth >= MAX_DEPTH {
                return Err(Fault::TooDeep.into());
            }
            let entries = if head.kind == Kind::Array {
                length(out, head.number, (0x90, 16), [None, Some(0xdc), Some(0xdd)]);
                head.number
            } else {
                length(out, head.number, (0x80, 16), [None, Some(0xde), Some(0xdf)]);
                2 * head.number
            };
            let mut next = after;
            for _ in 0..entries {
                next = rewrite(bytes, next, out, depth + 1)?;
            }
            Ok(next)
        }
        kind => {
            let content = content(bytes, after, head.number)?;
            match kind {
                Kind::Text => {
                    text(content)?;
                    write_text(out, content);
                }
                Kind::Bytes => write_bytes(out, content),
                Kind::Ext => {
                    match content.len() - 1 {
                        size @ (1 | 2 | 4 | 8 | 16) => out.push(0xd4 + size.trailing_zeros() as u8),
                        size => length(out, size as u64, (0, 0), [Some(0xc7), Some(0xc8), Some(0xc9)]),
                    }
                    out.extend_from_slice(content);
                }
                _ => {
                    out.push(first);
                    out.extend_from_slice(content);
                }
            }
            Ok(after + content.len())
        }
    }
}

pub fn write_text(out: &mut Vec<u8>, content: &[u8]) {
    length(out, content.len() as u64, (0xa0, 32), [Some(0xd9), Some(0xda), Some(0xdb)]);
    out.extend_from_slice(content);
}

pub fn write_bytes(out: &mut Vec<u8>, content: &[u8]) {
    length(out, content.len() as u64, (0, 0), [Some(0xc4), Some(0xc5), Some(0xc6)]);
    out.extend_from_slice(content);
}

/// `short`: the first byte of the shortest form, and from which length on it is not enough; `long`: those of the forms
/// with a length of 1, 2 and 4 bytes.
#[inline]
fn length(out: &mut Vec<u8>, length: u64, short: (u8, u64), long: [Option<u8>; 3]) {
    if length < short.1 {
        out.push(short.0 | length as u8);
        return;
    }
    match long {
        [Some(one), ..] if length < 1 << 8 => out.extend_from_slice(&[one, length as u8]),
        [_, Some(two), _] if length < 1 << 16 => {
            out.push(two);
            out.extend_from_slice(&(length as u16).to_be_bytes());
        }
        [.., four] => {
            out.push(four.unwrap_or_default());
            out.extend_from_slice(&(length as u32).to_be_bytes());
        }
    }
}

fn unsigned(out: &mut Vec<u8>, number: u64) {
    match number {
        0..0x80 => out.push(number as u8),
        0x80..0x100 => out.extend_from_slice(&[0xcc, number as u8]),
        0x100..0x1_0000 => long(out, 0xcd, &(number as u16).to_be_bytes()),
        0x1_0000..0x1_0000_0000 => long(out, 0xce, &(number as u32).to_be_bytes()),
        _ => long(out, 0xcf, &number.to_be_bytes()),
    }
}

fn signed(out: &mut Vec<u8>, number: i64) {
    match number {
        0.. => unsigned(out, number as u64),
        -32..0 => out.push(number as u8),
        -0x80..-32 => long(out, 0xd0, &(number as i8).to_be_bytes()),
        -0x8000..-0x80 => long(out, 0xd1, &(number as i16).to_be_bytes()),
        -0x8000_0000..-0x8000 => long(out, 0xd2, &(number as i32).to_be_bytes()),
        _ => long(out, 0xd3, &number.to_be_bytes()),
    }
}

fn long(out: &mut Vec<u8>, first: u8, rest: &[u8]) {
    out.push(first);
    out.extend_from_slice(rest);
}
