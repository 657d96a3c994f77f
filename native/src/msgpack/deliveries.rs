//! Deliveries, for clients: each is a topic and a value.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};

use super::forms::{Fault, Kind, Stop, content, head};
use super::skip::{State, skip};
use crate::buffer::View;

type Answer<'py> = (Bound<'py, PyList>, usize, Bound<'py, PyTuple>, Option<String>);

#[pyfunction]
pub fn msgpack_deliveries<'py>(
    buffer: &Bound<'py, PyAny>,
    state: Vec<u64>,
    max_bytes: usize,
) -> PyResult<Answer<'py>> {
    let py = buffer.py();
    let view = View::read(buffer)?;
    let bytes = view.bytes();
    let (found, mut at, mut state) = (PyList::empty(py), 0, State::of(&state));
    while at < bytes.len() {
        let end = match skip(bytes, at, &mut state, max_bytes) {
            Ok(Some(end)) => end,
            Ok(None) => break,
            Err(fault) => return Ok((found, at, PyTuple::empty(py), Some(fault.to_string()))),
        };
        let Some((topic, value_at)) = topic(&bytes[..end], at) else {
            return Ok((found, at, PyTuple::empty(py), Some(Fault::NotADelivery.to_string())));
        };
        found.append((topic, PyBytes::new(py, &bytes[value_at..end])))?;
        at = end;
    }
    Ok((found, at, state.tuple(py)?, None))
}

/// And where the value begins; None when it is no delivery.
fn topic(bytes: &[u8], at: usize) -> Option<(&str, usize)> {
    let pair = head(bytes, at).ok().filter(|pair| pair.kind == Kind::Array && pair.number == 2)?;
    let first = head(bytes, pair.after).ok().filter(|first| first.kind == Kind::Text)?;
    let topic = content(bytes, first.after, first.number).map_err(|_: Stop| ()).ok()?;
    Some((std::str::from_utf8(topic).ok()?, first.after + topic.len()))
}
