//! Instances of the program's NamedTuple classes.
//!
//! They are made by tuple's own constructor: calling the class would run a Python function for each.

use std::ffi::c_int;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyTuple, PyType};

pub struct NamedTuple<'py> {
    class: Bound<'py, PyType>,
    new: ffi::newfunc,
}

impl<'py> NamedTuple<'py> {
    pub fn of(class: &Bound<'py, PyType>) -> NamedTuple<'py> {
        let py = class.py();
        let tuple = py.get_type::<PyTuple>();
        assert!(class.is_subclass_of::<PyTuple>().unwrap_or(false));
        let slot = unsafe { ffi::PyType_GetSlot(tuple.as_type_ptr(), ffi::Py_tp_new as c_int) };
        assert!(!slot.is_null());
        NamedTuple {
            class: class.clone(),
            new: unsafe { std::mem::transmute::<*mut std::ffi::c_void, ffi::newfunc>(slot) },
        }
    }

    pub fn make(&self, fields: Bound<'py, PyTuple>) -> PyResult<Bound<'py, PyAny>> {
        let py = self.class.py();
        let arguments = PyTuple::new(py, [fields])?;
        unsafe {
            let made = (self.new)(self.class.as_type_ptr(), arguments.as_ptr(), std::ptr::null_mut());
            Bound::from_owned_ptr_or_err(py, made)
        }
    }
}
