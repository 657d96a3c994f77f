//! A column's memory, made here and handed to Python as it is: whatever reads a buffer reads it without a copy.

use std::ffi::c_int;

use pyo3::ffi;
use pyo3::prelude::*;

enum Memory {
    Bytes(Vec<u8>),
    Ints(Vec<i32>),
    Longs(Vec<i64>),
}

#[pyclass(frozen, module = "headrace_native")]
pub struct Block(Memory);

impl Block {
    pub fn bytes(content: Vec<u8>) -> Block {
        Block(Memory::Bytes(content))
    }

    pub fn ints(content: Vec<i32>) -> Block {
        Block(Memory::Ints(content))
    }

    pub fn longs(content: Vec<i64>) -> Block {
        Block(Memory::Longs(content))
    }

    fn place(&self) -> (*const u8, usize) {
        match &self.0 {
            Memory::Bytes(content) => (content.as_ptr(), content.len()),
            Memory::Ints(content) => (content.as_ptr().cast(), content.len() * 4),
            Memory::Longs(content) => (content.as_ptr().cast(), content.len() * 8),
        }
    }
}

#[pymethods]
impl Block {
    fn __len__(&self) -> usize {
        self.place().1
    }

    /// Read-only, so that the memory of a frozen object never changes under two readers.
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let (start, size) = slf.get().place();
        let read_only = 1;
        let filled = unsafe {
            let start = start.cast_mut().cast();
            ffi::PyBuffer_FillInfo(view, slf.as_ptr(), start, size as ffi::Py_ssize_t, read_only, flags)
        };
        if filled != 0 { Err(PyErr::fetch(slf.py())) } else { Ok(()) }
    }
}
