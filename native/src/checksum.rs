//! CRC32C by the processor's own instructions, found out at run time.

use pyo3::prelude::*;

use crate::buffer::View;

pub fn of(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

#[pyfunction]
#[pyo3(signature = (buffer, crc=0))]
pub fn crc32c(buffer: &Bound<'_, PyAny>, crc: u32) -> PyResult<u32> {
    let view = View::read(buffer)?;
    if crc == 0 {
        return Ok(of(view.bytes()));
    }
    let algorithm = crc_fast::CrcAlgorithm::Crc32Iscsi;
    let mut digest = crc_fast::Digest::new_with_init_state(algorithm, u64::from(!crc));
    digest.update(view.bytes());
    Ok(digest.finalize() as u32)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_processors_own_instructions_are_used() {
        let target = crc_fast::get_calculator_target(crc_fast::CrcAlgorithm::Crc32Iscsi);
        assert!(
            cfg!(not(any(target_arch = "x86_64", target_arch = "aarch64"))) || !target.contains("software")
        );
    }
}
