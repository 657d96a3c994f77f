//! Keys and the offset of the last record of each, in memory of a fixed size: open addressing, no growth, no deletion.
//!
//! A key is remembered by 128 bits of two keyed hashes with secrets drawn at each start, so that nobody can make two
//! keys that meet.

use std::hash::{BuildHasher, Hasher, RandomState};

/// Hash, hash, offset + 1; an offset of 0 means that the slot is free, so that fresh memory is an empty table.
type Slot = [u64; 3];

const SLOT_BYTES: usize = size_of::<Slot>();
/// Of four slots three are used at most: a search then looks at eight on average.
const FULL: (usize, usize) = (3, 4);
/// What one key costs.
pub const KEY_BYTES: usize = SLOT_BYTES * FULL.1 / FULL.0;

pub struct Table {
    slots: Vec<Slot>,
    capacity: usize,
    used: usize,
    secrets: (RandomState, RandomState),
}

impl Table {
    pub fn new(capacity: usize) -> Table {
        let slots = capacity.saturating_mul(FULL.1) / FULL.0 + 1;
        Table {
            slots: vec![[0; 3]; slots],
            capacity,
            used: 0,
            secrets: (RandomState::new(), RandomState::new()),
        }
    }

    pub fn capacity(&self) -> usize {
        self.capacity
    }

    pub fn len(&self) -> usize {
        self.used
    }

    pub fn hash(&self, key: &[u8]) -> (u64, u64) {
        fn one(secret: &RandomState, key: &[u8]) -> u64 {
            let mut hasher = secret.build_hasher();
            hasher.write(key);
            hasher.finish()
        }
        (one(&self.secrets.0, key), one(&self.secrets.1, key))
    }

    /// The slot of the key, or the free one that it would take.
    fn place(&self, (first, second): (u64, u64)) -> usize {
        let count = self.slots.len();
        let mut at = ((u128::from(first) * count as u128) >> 64) as usize;
        loop {
            let slot = &self.slots[at];
            if slot[2] == 0 || (slot[0] == first && slot[1] == second) {
                return at;
            }
            at = if at + 1 == count { 0 } else { at + 1 };
        }
    }

    /// False: there is no room for another key.
    pub fn put(&mut self, hash: (u64, u64), offset: i64) -> bool {
        let at = self.place(hash);
        if self.slots[at][2] == 0 {
            if self.used >= self.capacity {
                return false;
            }
            self.used += 1;
        }
        self.slots[at] = [hash.0, hash.1, offset as u64 + 1];
        true
    }

    /// The offset of the last record of the key; -1 when it is not known.
    pub fn get(&self, hash: (u64, u64)) -> i64 {
        self.slots[self.place(hash)][2] as i64 - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_holds_as_many_keys_as_it_says_and_forgets_none() {
        for capacity in [0, 1, 2, 3, 1000] {
            let mut table = Table::new(capacity);
            let keys: Vec<_> = (0..capacity as u64).map(|number| table.hash(&number.to_be_bytes())).collect();
            for (offset, key) in keys.iter().enumerate() {
                assert!(table.put(*key, offset as i64));
            }
            let other = table.hash(b"another");
            assert!(!table.put(other, 7) && table.get(other) == -1);
            for (offset, key) in keys.iter().enumerate() {
                assert_eq!(table.get(*key), offset as i64);
                assert!(table.put(*key, 5000 + offset as i64));
                assert_eq!(table.get(*key), 5000 + offset as i64);
            }
            assert_eq!(table.len(), capacity);
        }
    }
}
