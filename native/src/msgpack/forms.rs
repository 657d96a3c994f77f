//! What a value's first bytes say; `headrace.wire.msgpack.forms` draws them.

use std::fmt;

pub const MAX_DEPTH: usize = 128;

/// Bytes that no more bytes can make right.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fault {
    NotAValue,
    NotText,
    TooDeep,
    TooLarge(usize),
    NotACommand,
    Unknown,
    WrongFields,
    NotADelivery,
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::NotAValue => out.write_str("a byte that no value begins with"),
            Fault::NotText => out.write_str("text that is not UTF-8"),
            Fault::TooDeep => write!(out, "containers more than {MAX_DEPTH} deep inside of each other"),
            Fault::TooLarge(most) => write!(out, "more than {most} bytes"),
            Fault::NotACommand => out.write_str("a command is a map of one entry"),
            Fault::Unknown => out.write_str("a command that there is not"),
            Fault::WrongFields => out.write_str("a command whose fields are not its own"),
            Fault::NotADelivery => out.write_str("a delivery is a topic and a value"),
        }
    }
}

/// Why a value cannot be read: more bytes are needed, or none would help.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Stop {
    Short,
    Fault(Fault),
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Stop {
        Stop::Fault(fault)
    }
}

#[derive(Clone, Copy, PartialEq)]
pub enum Kind {
    Text,
    Bytes,
    Ext,
    Array,
    Map,
    Int,
    Plain,
}

/// The number is a length in bytes (of an ext with its type), a count of entries, or of a plain value how many bytes
/// still follow. An int is whole: it has none.
pub struct Head {
    pub kind: Kind,
    pub number: u64,
    pub after: usize,
}

impl Head {
    /// How many bytes of content follow.
    pub fn content(&self) -> u64 {
        match self.kind {
            Kind::Text | Kind::Bytes | Kind::Ext | Kind::Plain => self.number,
            _ => 0,
        }
    }
}

#[inline]
pub fn head(bytes: &[u8], at: usize) -> Result<Head, Stop> {
    let &first = bytes.get(at).ok_or(Stop::Short)?;
    let short = |kind, number: u8| Head { kind, number: u64::from(number), after: at + 1 };
    let long =
        |kind, size| number(bytes, at + 1, size).map(|number| Head { kind, number, after: at + 1 + size });
    match first {
        0x00..=0x7f | 0xe0..=0xff => Ok(short(Kind::Int, 0)),
        0x80..=0x8f => Ok(short(Kind::Map, first & 0x0f)),
        0x90..=0x9f => Ok(short(Kind::Array, first & 0x0f)),
        0xa0..=0xbf => Ok(short(Kind::Text, first & 0x1f)),
        0xc0 | 0xc2 | 0xc3 => Ok(short(Kind::Plain, 0)),
        0xc1 => Err(Fault::NotAValue.into()),
        0xc4..=0xc6 => long(Kind::Bytes, 1 << (first - 0xc4)),
        0xc7..=0xc9 => {
            long(Kind::Ext, 1 << (first - 0xc7)).map(|head| Head { number: head.number + 1, ..head })
        }
        0xca | 0xcb => Ok(short(Kind::Plain, 4 << (first - 0xca))),
        0xcc..=0xcf => long(Kind::Int, 1 << (first - 0xcc)),
        0xd0..=0xd3 => long(Kind::Int, 1 << (first - 0xd0)),
        0xd4..=0xd8 => Ok(short(Kind::Ext, 1 + (1 << (first - 0xd4)))),
        0xd9..=0xdb => long(Kind::Text, 1 << (first - 0xd9)),
        0xdc | 0xdd => long(Kind::Array, 2 << (first - 0xdc)),
        0xde | 0xdf => long(Kind::Map, 2 << (first - 0xde)),
    }
}

/// Unsigned, of so many bytes.
#[inline]
pub fn number(bytes: &[u8], at: usize, size: usize) -> Result<u64, Stop> {
    let content = bytes.get(at..at + size).ok_or(Stop::Short)?;
    Ok(content.iter().fold(0, |number, &byte| number << 8 | u64::from(byte)))
}

/// The content that a head promises, if it is there.
#[inline]
pub fn content(bytes: &[u8], after: usize, size: u64) -> Result<&[u8], Stop> {
    let size = usize::try_from(size).map_err(|_| Stop::Short)?;
    bytes.get(after..).and_then(|rest| rest.get(..size)).ok_or(Stop::Short)
}

#[inline]
pub fn text(bytes: &[u8]) -> Result<&str, Fault> {
    std::str::from_utf8(bytes).map_err(|_| Fault::NotText)
}
