//! The 61 bytes in front of every batch; `headrace.records.header` draws them.

pub const HEADER_BYTES: usize = 61;
pub const PREFIX_BYTES: usize = 12;
pub const CRC_FROM: usize = 21;
pub const CRC_AT: usize = 17;
pub const ATTRIBUTES_LOW_AT: usize = 22;
pub const MAX_TIMESTAMP_AT: usize = 35;
pub const MAGIC: i8 = 2;
pub const MAGIC_AT: usize = 16;
pub const MAX_BATCH_BYTES: i32 = 128 << 20;
pub const MAX_OFFSET: i64 = i64::MAX - (1 << 32);
pub const COMPRESSION_MASK: i16 = 0x07;
pub const LAST_COMPRESSION: i16 = 4;
pub const LOG_APPEND_TIME: u8 = 0x08;

#[derive(Clone, Copy)]
pub struct Header {
    pub base_offset: i64,
    pub length: i32,
    pub leader_epoch: i32,
    pub magic: i8,
    pub crc: u32,
    pub attributes: i16,
    pub last_offset_delta: i32,
    pub base_timestamp: i64,
    pub max_timestamp: i64,
    pub producer_id: i64,
    pub producer_epoch: i16,
    pub base_sequence: i32,
    pub record_count: i32,
}

impl Header {
    pub fn read(bytes: &[u8; HEADER_BYTES]) -> Header {
        fn at<const N: usize>(bytes: &[u8; HEADER_BYTES], from: usize) -> [u8; N] {
            let mut field = [0; N];
            field.copy_from_slice(&bytes[from..from + N]);
            field
        }
        Header {
            base_offset: i64::from_be_bytes(at(bytes, 0)),
            length: i32::from_be_bytes(at(bytes, 8)),
            leader_epoch: i32::from_be_bytes(at(bytes, 12)),
            magic: bytes[MAGIC_AT] as i8,
            crc: u32::from_be_bytes(at(bytes, CRC_AT)),
            attributes: i16::from_be_bytes(at(bytes, CRC_FROM)),
            last_offset_delta: i32::from_be_bytes(at(bytes, 23)),
            base_timestamp: i64::from_be_bytes(at(bytes, 27)),
            max_timestamp: i64::from_be_bytes(at(bytes, MAX_TIMESTAMP_AT)),
            producer_id: i64::from_be_bytes(at(bytes, 43)),
            producer_epoch: i16::from_be_bytes(at(bytes, 51)),
            base_sequence: i32::from_be_bytes(at(bytes, 53)),
            record_count: i32::from_be_bytes(at(bytes, 57)),
        }
    }

    /// Of a header that `implausible` has nothing against.
    pub fn size(&self) -> usize {
        PREFIX_BYTES + self.length as usize
    }

    /// Of a header that `misplaced` has nothing against.
    pub fn next_offset(&self) -> i64 {
        self.base_offset + i64::from(self.last_offset_delta) + 1
    }

    /// Why these can not be the first bytes of a batch; None when they can.
    pub fn implausible(&self) -> Option<String> {
        let least = (HEADER_BYTES - PREFIX_BYTES) as i32;
        let most = MAX_BATCH_BYTES - PREFIX_BYTES as i32;
        if self.magic != MAGIC {
            return Some(format!("magic {} where RecordBatch v2 has {MAGIC}", self.magic));
        }
        if self.length < least {
            return Some(format!("a length of {} bytes is less than the header itself", self.length));
        }
        if self.length > most {
            return Some(format!("a length of {} bytes is over the limit of {most}", self.length));
        }
        let places = i64::from(self.last_offset_delta) + 1;
        if self.last_offset_delta < 0 || self.record_count < 0 || i64::from(self.record_count) > places {
            return Some(format!(
                "{} records do not fit a last offset delta of {}",
                self.record_count, self.last_offset_delta
            ));
        }
        None
    }

    /// Why the batch can not stand at its offset, after one that ended before `expected_offset`.
    pub fn misplaced(&self, expected_offset: i64) -> Option<String> {
        if !(0..=MAX_OFFSET).contains(&self.base_offset) {
            return Some(format!("a base offset of {} is not an offset", self.base_offset));
        }
        if self.base_offset < expected_offset {
            return Some(format!("offset {} where {expected_offset} or more was expected", self.base_offset));
        }
        None
    }

    /// Writes the fields that compaction changes into the batch that they belong to, with its length and a new checksum.
    pub fn seal(&self, batch: &mut [u8]) {
        let length = (batch.len() - PREFIX_BYTES) as i32;
        batch[8..12].copy_from_slice(&length.to_be_bytes());
        batch[CRC_FROM..23].copy_from_slice(&self.attributes.to_be_bytes());
        batch[27..MAX_TIMESTAMP_AT].copy_from_slice(&self.base_timestamp.to_be_bytes());
        batch[MAX_TIMESTAMP_AT..MAX_TIMESTAMP_AT + 8].copy_from_slice(&self.max_timestamp.to_be_bytes());
        batch[57..HEADER_BYTES].copy_from_slice(&self.record_count.to_be_bytes());
        let crc = crate::checksum::of(&batch[CRC_FROM..]);
        batch[CRC_AT..CRC_FROM].copy_from_slice(&crc.to_be_bytes());
    }

    /// What a producer may not send, though a compacted log may hold it.
    pub fn unacceptable(&self) -> Option<String> {
        let compression = self.attributes & COMPRESSION_MASK;
        // Unfolded, no body is larger than a batch.
        let body = if compression == 0 { self.size() - HEADER_BYTES } else { MAX_BATCH_BYTES as usize };
        if self.record_count < 1 || self.last_offset_delta != self.record_count - 1 {
            return Some(format!(
                "{} records with a last offset delta of {}",
                self.record_count, self.last_offset_delta
            ));
        }
        if compression > LAST_COMPRESSION {
            return Some(format!("compression {compression} is not known"));
        }
        if self.record_count as usize > body / crate::record::MIN_RECORD_BYTES {
            return Some(format!("{} records can not fit in {body} bytes", self.record_count));
        }
        None
    }
}

/// The header at `at`, if there are bytes enough for one before `end`.
pub fn header_at(bytes: &[u8], at: usize, end: usize) -> Option<Header> {
    bytes[at..end].first_chunk().map(Header::read)
}
