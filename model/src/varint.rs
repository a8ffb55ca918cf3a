//! Whole numbers in as few bytes as they need: seven bits a byte, the lowest first, the top bit says that more follow.
//!
//! Used by stored rows, bucket keys, statistics and tail cursors. Signed numbers are folded by [`zigzag`], so that small
//! negative ones stay small. Reading is strict: bits beyond the type are refused, never dropped.

/// Appends a number, in 1 to 19 bytes.
pub fn put(out: &mut Vec<u8>, value: impl Into<u128>) {
    let mut value = value.into();
    let Ok(mut low) = u64::try_from(value) else {
        while value >= 0x80 {
            out.push(value as u8 | 0x80);
            value >>= 7;
        }
        return out.push(value as u8);
    };
    while low >= 0x80 {
        out.push(low as u8 | 0x80);
        low >>= 7;
    }
    out.push(low as u8);
}

/// Takes a number of at most 64 bits from the front; `None` if there is none, and `bytes` is then of no use.
pub fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..u64::BITS).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let bits = u64::from(byte & 0x7f);
        if (bits << shift) >> shift != bits {
            return None;
        }
        value |= bits << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// [`take`] for numbers of up to 128 bits.
pub fn take_wide(bytes: &mut &[u8]) -> Option<u128> {
    let mut value = 0u128;
    for shift in (0..u128::BITS).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let bits = u128::from(byte & 0x7f);
        if (bits << shift) >> shift != bits {
            return None;
        }
        value |= bits << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// Folds the sign into the lowest bit.
pub fn zigzag(value: i128) -> u128 {
    ((value << 1) ^ (value >> 127)).cast_unsigned()
}

/// The inverse of [`zigzag`].
pub fn unzigzag(value: u128) -> i128 {
    (value >> 1).cast_signed() ^ -((value & 1).cast_signed())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_read_back(value in any::<u64>(), wide in any::<i128>()) {
            let mut bytes = Vec::new();
            put(&mut bytes, value);
            put(&mut bytes, zigzag(wide));
            let mut rest = bytes.as_slice();
            prop_assert_eq!(take(&mut rest), Some(value));
            prop_assert_eq!(take_wide(&mut rest).map(unzigzag), Some(wide));
            prop_assert!(rest.is_empty());
        }

        #[test]
        fn hostile_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = take(&mut bytes.as_slice());
            let _ = take_wide(&mut bytes.as_slice());
        }
    }

    #[test]
    fn bits_beyond_the_type_are_refused() {
        let mut eleven = [0xffu8; 10];
        eleven[9] = 0x02;
        assert_eq!(take(&mut eleven.as_slice()), None);
        assert_eq!(take(&mut [0x80u8, 0x80].as_slice()), None, "it ends in the middle");
    }
}
