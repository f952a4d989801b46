//! Which shard a message belongs to.
//!
//! Producers in every language that agree on this agree on where a message is: the 64-bit FNV-1a
//! of the group, or else of the id, and the jump consistent hash of that. Of n shards that grow to
//! m, only the share (m - n) / m of all messages gets another place, and always one of the new.

/// The shard of that group or id, of so many.
pub(super) fn place(key: &[u8], shards: usize) -> usize {
    jump(fnv1a(key), shards)
}

fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Lamping and Veach, "A Fast, Minimal Memory, Consistent Hash Algorithm".
fn jump(mut key: u64, buckets: usize) -> usize {
    let (mut bucket, mut next) = (0, 0);
    while next < buckets {
        bucket = next;
        key = key.wrapping_mul(2_862_933_555_777_941_757).wrapping_add(1);
        let part = ((key >> 33) + 1) as f64;
        next = ((bucket + 1) as f64 * ((1_u64 << 31) as f64 / part)) as usize;
    }
    bucket
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_that_of_everybody() {
        // From the authors' page of FNV.
        assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(fnv1a(b"foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn places_never_change() {
        // What the guide names for other languages, too.
        let places = |key: &str| [1, 2, 3, 4, 8, 100].map(|shards| place(key.as_bytes(), shards));
        assert_eq!(places("order:1"), [0, 1, 2, 2, 6, 6]);
        assert_eq!(places("order:2"), [0, 0, 0, 3, 5, 79]);
        assert_eq!(places("customer-7"), [0, 1, 1, 1, 1, 59]);
    }

    #[test]
    fn messages_are_shared_out_evenly_and_move_to_new_shards_only() {
        let mut counts = [0_u32; 4];
        for n in 0..40_000_u32 {
            let key = format!("message-{n}");
            let (before, after) = (place(key.as_bytes(), 4), place(key.as_bytes(), 6));
            counts[before] += 1;
            assert!(after == before || (4..6).contains(&after), "{key}");
        }
        for count in counts {
            assert!((9_500..=10_500).contains(&count), "{counts:?}");
        }
    }
}
