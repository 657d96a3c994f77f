//! One whole command: which it is, and where its parts are. The twin is `headrace.wire.msgpack.parsing`.

use super::forms::{Fault, Head, Kind, Stop, content, head, number, text};

pub const FIRST_BYTES: [u8; 3] = [0x81, 0xde, 0xdf];

pub enum Command<'a> {
    Publish { topic: &'a str, value_at: usize },
    Subscribe(&'a str),
    Unsubscribe(&'a str),
}

/// The command that is known to be one whole value.
pub fn parse(bytes: &[u8], at: usize) -> Result<Command<'_>, Fault> {
    let outer = whole(bytes, at)?;
    if outer.kind != Kind::Map || outer.number != 1 {
        return Err(Fault::NotACommand);
    }
    let (command, at) = command(bytes, outer.after)?;
    match command {
        Some(0) => message(bytes, only(bytes, at, "message")?),
        Some(1) => Ok(Command::Subscribe(text_at(bytes, only(bytes, at, "pattern")?)?.0)),
        Some(2) => Ok(Command::Unsubscribe(text_at(bytes, only(bytes, at, "pattern")?)?.0)),
        _ => Err(Fault::Unknown),
    }
}

/// By its name or its number; where its fields are.
fn command(bytes: &[u8], at: usize) -> Result<(Option<u64>, usize), Fault> {
    let head = whole(bytes, at)?;
    match head.kind {
        Kind::Int => {
            let first = bytes[at];
            let number = match first {
                0x00..=0x7f => u64::from(first),
                0xe0..=0xff => return Ok((None, head.after)),
                // A negative one, read as unsigned, is none of ours either.
                _ => inside(number(bytes, at + 1, head.after - at - 1))?,
            };
            Ok((Some(number), head.after))
        }
        Kind::Text => {
            let name = inside(content(bytes, head.after, head.number))?;
            let command = match name {
                b"Publish" => Some(0),
                b"Subscribe" => Some(1),
                b"Unsubscribe" => Some(2),
                _ => None,
            };
            Ok((command, head.after + name.len()))
        }
        _ => Ok((None, head.after)),
    }
}

/// Where the only field is.
fn only(bytes: &[u8], at: usize, name: &str) -> Result<usize, Fault> {
    let head = whole(bytes, at)?;
    match head.kind {
        Kind::Array if head.number == 1 => Ok(head.after),
        Kind::Map if head.number == 1 => match name_at(bytes, head.after)? {
            (found, at) if found == name.as_bytes() => Ok(at),
            _ => Err(Fault::WrongFields),
        },
        _ => Err(Fault::WrongFields),
    }
}

fn message(bytes: &[u8], at: usize) -> Result<Command<'_>, Fault> {
    let head = whole(bytes, at)?;
    if head.number != 2 || !matches!(head.kind, Kind::Array | Kind::Map) {
        return Err(Fault::WrongFields);
    }
    if head.kind == Kind::Array {
        let (topic, value_at) = text_at(bytes, head.after)?;
        return Ok(Command::Publish { topic, value_at });
    }
    let (first, at) = name_at(bytes, head.after)?;
    if first == b"topic" {
        let (topic, at) = text_at(bytes, at)?;
        let (other, value_at) = name_at(bytes, at)?;
        return if other == b"value" {
            Ok(Command::Publish { topic, value_at })
        } else {
            Err(Fault::WrongFields)
        };
    }
    let (other, topic_at) = name_at(bytes, after(bytes, at)?)?;
    if first != b"value" || other != b"topic" {
        return Err(Fault::WrongFields);
    }
    Ok(Command::Publish { topic: text_at(bytes, topic_at)?.0, value_at: at })
}

fn name_at(bytes: &[u8], at: usize) -> Result<(&[u8], usize), Fault> {
    let head = whole(bytes, at)?;
    if head.kind != Kind::Text {
        return Err(Fault::WrongFields);
    }
    let name = inside(content(bytes, head.after, head.number))?;
    Ok((name, head.after + name.len()))
}

/// A topic or a pattern.
fn text_at(bytes: &[u8], at: usize) -> Result<(&str, usize), Fault> {
    let head = whole(bytes, at)?;
    if !matches!(head.kind, Kind::Text | Kind::Bytes) {
        return Err(Fault::WrongFields);
    }
    let found = inside(content(bytes, head.after, head.number))?;
    Ok((text(found)?, head.after + found.len()))
}

/// Behind a value.
fn after(bytes: &[u8], mut at: usize) -> Result<usize, Fault> {
    let mut wanted = 1;
    while wanted > 0 {
        let head = whole(bytes, at)?;
        at = head.after + head.content() as usize;
        wanted += match head.kind {
            Kind::Array => head.number,
            Kind::Map => 2 * head.number,
            _ => 0,
        };
        wanted -= 1;
    }
    Ok(at)
}

fn whole(bytes: &[u8], at: usize) -> Result<Head, Fault> {
    inside(head(bytes, at))
}

/// The command was gone over: it is not short.
fn inside<T>(found: Result<T, Stop>) -> Result<T, Fault> {
    found.map_err(|stop| match stop {
        Stop::Fault(fault) => fault,
        Stop::Short => Fault::NotACommand,
    })
}
