//! All whole commands that a read brought.

use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyList, PyTuple};

use super::forms::Fault;
use super::parse::{Command, FIRST_BYTES, parse};
use super::rewrite::rewrite;
use super::run::{Run, Runs};
use super::skip::{State, skip};
use crate::buffer::View;

const PUBLISH: u8 = 0;
const SUBSCRIBE: u8 = 1;
const UNSUBSCRIBE: u8 = 2;

/// How all clients begin a Publish.
const USUAL: &[u8; 11] = b"\x81\xa7Publish\x91\x92";

type Answer<'py> = (Bound<'py, PyList>, usize, Bound<'py, PyTuple>, Option<String>);

#[pyfunction]
pub fn msgpack_commands<'py>(
    buffer: &Bound<'py, PyAny>,
    state: Vec<u64>,
    now_ms: i64,
    max_command_bytes: usize,
    max_batch_bytes: usize,
) -> PyResult<Answer<'py>> {
    let py = buffer.py();
    let view = View::read(buffer)?;
    let mut state = State::of(&state);
    let mut events = Events { py, list: PyList::empty(py), now_ms };
    let mut taken =
        Taken { bytes: view.bytes(), at: 0, runs: Runs::default(), max_command_bytes, max_batch_bytes };
    let fault = taken.all(&mut state, &mut events)?;
    events.end(&mut taken.runs)?;
    let left = if fault.is_some() { PyTuple::empty(py) } else { state.tuple(py)? };
    Ok((events.list, taken.at, left, fault.map(|fault| fault.to_string())))
}

struct Taken<'a> {
    bytes: &'a [u8],
    at: usize,
    runs: Runs<'a>,
    max_command_bytes: usize,
    max_batch_bytes: usize,
}

impl<'a> Taken<'a> {
    /// Why it went no further; None: because the bytes end.
    fn all(&mut self, state: &mut State, events: &mut Events<'_>) -> PyResult<Option<Fault>> {
        while self.at < self.bytes.len() {
            if state.wanted.is_empty() && self.usual(events)? {
                continue;
            }
            match self.any(state, events)? {
                Ok(true) => {}
                Ok(false) => return Ok(None),
                Err(fault) => return Ok(Some(fault)),
            }
        }
        Ok(None)
    }

    /// A Publish in the form that all clients send, if there is a whole one. Whatever is not so is judged by `any`.
    #[inline]
    fn usual(&mut self, events: &mut Events<'_>) -> PyResult<bool> {
        let rest = &self.bytes[self.at..];
        if rest.first_chunk() != Some(USUAL) {
            return Ok(false);
        }
        let Some(&first) = rest.get(USUAL.len()) else { return Ok(false) };
        if !(0xa0..0xc0).contains(&first) {
            return Ok(false);
        }
        let (from, size) = (USUAL.len() + 1, usize::from(first & 0x1f));
        let Some(topic) = rest.get(from..from + size) else { return Ok(false) };
        let Ok(topic) = std::str::from_utf8(topic) else { return Ok(false) };
        let most = self.bytes.len().min(self.at.saturating_add(self.max_command_bytes));
        let added = self.runs.add(&self.bytes[..most], topic, self.at + from + size, self.max_batch_bytes);
        let Ok((end, full)) = added else { return Ok(false) };
        self.at = end;
        if let Some(full) = full {
            events.publish(full)?;
        }
        Ok(true)
    }

    /// False: it is not whole.
    fn any(&mut self, state: &mut State, events: &mut Events<'_>) -> PyResult<Result<bool, Fault>> {
        let (bytes, at) = (self.bytes, self.at);
        if !FIRST_BYTES.contains(&bytes[at]) {
            return Ok(Err(Fault::NotACommand));
        }
        let end = match skip(bytes, at, state, self.max_command_bytes) {
            Ok(Some(end)) => end,
            Ok(None) => return Ok(Ok(false)),
            Err(fault) => return Ok(Err(fault)),
        };
        match parse(bytes, at) {
            Err(fault) => return Ok(Err(fault)),
            Ok(Command::Publish { topic, value_at }) => {
                let Ok((_, full)) = self.runs.add(bytes, topic, value_at, self.max_batch_bytes) else {
                    return Ok(Err(Fault::WrongFields));
                };
                if let Some(full) = full {
                    events.publish(full)?;
                }
            }
            Ok(Command::Subscribe(pattern)) => {
                events.end(&mut self.runs)?;
                events.list.append((SUBSCRIBE, pattern))?;
            }
            Ok(Command::Unsubscribe(pattern)) => {
                events.end(&mut self.runs)?;
                events.list.append((UNSUBSCRIBE, pattern))?;
            }
        }
        self.at = end;
        Ok(Ok(true))
    }
}

struct Events<'py> {
    py: Python<'py>,
    list: Bound<'py, PyList>,
    now_ms: i64,
}

impl Events<'_> {
    fn end(&mut self, runs: &mut Runs<'_>) -> PyResult<()> {
        for run in runs.take() {
            self.publish(run)?;
        }
        Ok(())
    }

    fn publish(&mut self, mut run: Run<'_>) -> PyResult<()> {
        let batch = PyByteArray::new(self.py, run.seal(self.now_ms));
        let deliveries = PyBytes::new(self.py, &run.deliveries);
        self.list.append((PUBLISH, run.topic, run.count, batch, deliveries))
    }
}

#[pyfunction]
pub fn msgpack_smallest<'py>(buffer: &Bound<'py, PyAny>) -> PyResult<Option<Bound<'py, PyBytes>>> {
    let view = View::read(buffer)?;
    let bytes = view.bytes();
    let mut out = Vec::with_capacity(bytes.len());
    Ok(match rewrite(bytes, 0, &mut out, 0) {
        Ok(end) if end == bytes.len() => Some(PyBytes::new(buffer.py(), &out)),
        _ => None,
    })
}
