//! Which partition each row of a key column goes to, as Java's clients choose it. The twin is
//! `headrace.records.twin.partitions`.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::block::Block;
use crate::rows::{Binary, GivenBinary, Stop};

const SEED: u32 = 0x9747_b28c;
const M: u32 = 0x5bd1_e995;
const WITHOUT_KEY: i32 = -1;

#[pyfunction]
pub fn key_partitions(py: Python<'_>, rows: i64, key: GivenBinary<'_>, count: i64) -> PyResult<Block> {
    if rows < 0 || count < 1 || count > i32::MAX.into() {
        return Err(PyValueError::new_err(format!("{rows} rows for {count} partitions")));
    }
    let keys = Binary::of(key)?;
    let found = py.detach(|| {
        let mut found = Vec::new();
        for row in 0..rows as usize {
            found.push(match keys.get(row)? {
                None => WITHOUT_KEY,
                Some(key) => ((murmur2(key) & 0x7fff_ffff) % count as u32) as i32,
            });
        }
        Ok(found)
    });
    found.map(Block::ints).map_err(|stop: Stop| stop.raise(py))
}

fn murmur2(key: &[u8]) -> u32 {
    let mut hash = SEED ^ key.len() as u32;
    let (words, rest) = key.as_chunks::<4>();
    for word in words {
        let mixed = u32::from_le_bytes(*word).wrapping_mul(M);
        hash = hash.wrapping_mul(M) ^ (mixed ^ mixed >> 24).wrapping_mul(M);
    }
    if !rest.is_empty() {
        let mut last = [0; 4];
        last[..rest.len()].copy_from_slice(rest);
        hash = (hash ^ u32::from_le_bytes(last)).wrapping_mul(M);
    }
    hash = (hash ^ hash >> 13).wrapping_mul(M);
    hash ^ hash >> 15
}
