//! The two murmur variants.

fn mix_k1(k: u32) -> u32 {
    k.wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593)
}

fn mix_h1(h: u32, k: u32) -> u32 {
    (h ^ k).rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64)
}

fn finish(mut h: u32) -> u32 {
    h ^= h >> 16;
    h = h.wrapping_mul(0x85eb_ca6b);
    h ^= h >> 13;
    h = h.wrapping_mul(0xc2b2_ae35);
    h ^ h >> 16
}

fn words(bytes: &[u8]) -> (impl Iterator<Item = u32>, &[u8]) {
    let chunks = bytes.chunks_exact(4);
    let tail = chunks.remainder();
    (chunks.map(|w| u32::from_le_bytes([w[0], w[1], w[2], w[3]])), tail)
}

/// Fluss's and Paimon's hash: seed 42, and every byte of the tail mixed as a sign-extended word of its own, which is
/// not how murmur3 treats its tail.
pub(super) fn fluss_hash(bytes: &[u8]) -> u32 {
    let (words, tail) = words(bytes);
    let h = words.fold(42, |h, w| mix_h1(h, mix_k1(w)));
    let h = tail.iter().fold(h, |h, b| mix_h1(h, mix_k1(*b as i8 as i32 as u32)));
    finish(h ^ bytes.len() as u32)
}

/// The second hash over the first one, made positive as Java's `MathUtils.murmurHash` does it.
pub(super) fn fluss_finish(hash: u32) -> u32 {
    let h = mix_k1(hash).rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64);
    let signed = finish(h ^ 4) as i32;
    signed.checked_abs().unwrap_or(0) as u32
}

/// Murmur3 for x86, 32 bits, seed 0.
pub(super) fn murmur3_32(bytes: &[u8]) -> u32 {
    let (words, tail) = words(bytes);
    let mut h = words.fold(0, |h, w| mix_h1(h, mix_k1(w)));
    if !tail.is_empty() {
        let mut last = [0u8; 4];
        last[..tail.len()].copy_from_slice(tail);
        h ^= mix_k1(u32::from_le_bytes(last));
    }
    finish(h ^ bytes.len() as u32)
}
