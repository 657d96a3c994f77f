//! Room for bytes that are about to be read into it.

use pyo3::exceptions::PyValueError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyByteArray;

/// A bytearray of that size, of which nothing has been written: for who fills all of it before looking at any of it.
#[pyfunction]
pub fn room(py: Python<'_>, size: isize) -> PyResult<Bound<'_, PyByteArray>> {
    if size < 0 {
        return Err(PyValueError::new_err("negative count"));
    }
    let made = unsafe {
        let raw = ffi::PyByteArray_FromStringAndSize(std::ptr::null(), size);
        Bound::from_owned_ptr_or_err(py, raw)?
    };
    Ok(made.cast_into::<PyByteArray>()?)
}
