//! The program's own errors. They are imported when the first one is raised: this crate does not need the program.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

macro_rules! errors {
    ($($name:ident = $class:literal;)*) => {$(
        pub fn $name(py: Python<'_>, text: impl ToString) -> PyErr {
            static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
            match CLASS.import(py, "headrace.errors", $class) {
                Ok(class) => PyErr::from_type(class.clone(), text.to_string()),
                Err(error) => error,
            }
        }
    )*};
}

errors! {
    corrupt_batch = "CorruptBatch";
    invalid_timestamp = "InvalidTimestamp";
    limit_reached = "LimitReached";
    unsupported_magic = "UnsupportedMagic";
}
