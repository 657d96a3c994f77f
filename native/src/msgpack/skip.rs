//! Goes over a value once, however many pieces its bytes come in.

use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::forms::{Fault, Kind, MAX_DEPTH, Stop, head, text};

const COMMAND_DEPTH: usize = 3;

/// Bytes that were gone over, and how many values each open container still wants.
pub struct State {
    pub seen: usize,
    pub wanted: Vec<u64>,
}

impl State {
    /// As the program keeps it between two calls.
    pub fn of(kept: &[u64]) -> State {
        State {
            seen: kept.first().map_or(0, |&seen| seen as usize),
            wanted: kept.get(1..).unwrap_or_default().to_vec(),
        }
    }

    pub fn tuple(mut self, py: Python<'_>) -> PyResult<Bound<'_, PyTuple>> {
        if self.wanted.is_empty() {
            return Ok(PyTuple::empty(py));
        }
        self.wanted.insert(0, self.seen as u64);
        PyTuple::new(py, &self.wanted)
    }
}

/// Where the value ends that begins at `start`; None when it is not whole, and `state` says how far it is.
pub fn skip(bytes: &[u8], start: usize, state: &mut State, max_bytes: usize) -> Result<Option<usize>, Fault> {
    if state.wanted.is_empty() {
        state.wanted.push(1);
    }
    let mut at = start + state.seen;
    while !state.wanted.is_empty() {
        let head = match head(bytes, at) {
            Ok(head) => head,
            Err(Stop::Fault(fault)) => return Err(fault),
            Err(Stop::Short) => return wait(state, at - start),
        };
        let is_container = matches!(head.kind, Kind::Array | Kind::Map);
        let size = head.content();
        let most = (start + max_bytes) as u64;
        if head.after as u64 + size > most || (is_container && head.number > max_bytes as u64) {
            return Err(Fault::TooLarge(max_bytes));
        }
        if is_container && state.wanted.len() > COMMAND_DEPTH + MAX_DEPTH {
            return Err(Fault::TooDeep);
        }
        let end = head.after + size as usize;
        if end > bytes.len() {
            return wait(state, at - start);
        }
        if head.kind == Kind::Text {
            text(&bytes[head.after..end])?;
        }
        at = end;
        if let Some(wanted) = state.wanted.last_mut() {
            *wanted -= 1;
        }
        if is_container && head.number > 0 {
            state.wanted.push(if head.kind == Kind::Array { head.number } else { 2 * head.number });
            continue;
        }
        while state.wanted.last() == Some(&0) {
            state.wanted.pop();
        }
    }
    state.seen = 0;
    Ok(Some(at))
}

fn wait(state: &mut State, seen: usize) -> Result<Option<usize>, Fault> {
    state.seen = seen;
    Ok(None)
}
