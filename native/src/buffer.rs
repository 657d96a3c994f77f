//! Borrowed bytes of any Python object that has them: bytes, bytearray, memoryview, one of our blocks.

use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;

/// Holds the object's memory in place until dropped: a bytearray can not be resized meanwhile.
///
/// Another thread could still write into it. Callers own what they hand in, and a kernel reads each length once before
/// it uses it, so such a writer gets a wrong answer or an error, not a read outside of the buffer.
pub struct View(Box<ffi::Py_buffer>);

// The memory belongs to the exporter, which stays alive and in place; only `drop` needs the interpreter, and views are
// dropped where they were made.
unsafe impl Send for View {}
unsafe impl Sync for View {}

impl View {
    pub fn read(object: &Bound<'_, PyAny>) -> PyResult<View> {
        View::get(object, ffi::PyBUF_SIMPLE)
    }

    pub fn write(object: &Bound<'_, PyAny>) -> PyResult<View> {
        View::get(object, ffi::PyBUF_WRITABLE)
    }

    fn get(object: &Bound<'_, PyAny>, flags: std::ffi::c_int) -> PyResult<View> {
        let mut raw = Box::new(ffi::Py_buffer::new());
        if unsafe { ffi::PyObject_GetBuffer(object.as_ptr(), &mut *raw, flags) } != 0 {
            return Err(PyErr::fetch(object.py()));
        }
        Ok(View(raw))
    }

    pub fn bytes(&self) -> &[u8] {
        if self.0.len <= 0 {
            return &[];
        }
        unsafe { std::slice::from_raw_parts(self.0.buf.cast(), self.0.len as usize) }
    }

    /// Only of a view made by `write`.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        assert_eq!(self.0.readonly, 0, "the view was not asked for writing");
        if self.0.len <= 0 {
            return &mut [];
        }
        unsafe { std::slice::from_raw_parts_mut(self.0.buf.cast(), self.0.len as usize) }
    }
}

impl Drop for View {
    fn drop(&mut self) {
        unsafe { ffi::PyBuffer_Release(&mut *self.0) }
    }
}

/// The range as indexes, or the caller's fault.
pub fn range(bytes: &[u8], start: i64, end: i64) -> PyResult<std::ops::Range<usize>> {
    if 0 <= start && start <= end && end <= bytes.len() as i64 {
        return Ok(start as usize..end as usize);
    }
    Err(PyValueError::new_err(format!(
        "{start} to {end} is not within the {} bytes of the buffer",
        bytes.len()
    )))
}
