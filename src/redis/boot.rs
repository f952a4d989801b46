//! A clock that nobody sets.

/// Microseconds since the machine started, those that it was asleep included. Unlike the server's clock
/// it cannot be set; only differences mean anything.
#[cfg(target_os = "linux")]
pub fn since_boot_us() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the structure outlives the call. Linux has had this clock since 2.6.39, so the call
    // cannot fail; if it did, the clock would stand still at zero.
    unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &mut time) };
    let (seconds, nanos) = (time.tv_sec as u64, time.tv_nsec as u64); // neither is negative
    seconds * 1_000_000 + nanos / 1000
}

/// Microseconds since the first call, where the time that the machine was asleep may be missing.
#[cfg(not(target_os = "linux"))]
pub fn since_boot_us() -> u64 {
    use std::sync::OnceLock;
    use std::time::Instant;

    static FIRST: OnceLock<Instant> = OnceLock::new();
    let passed = FIRST.get_or_init(Instant::now).elapsed();
    u64::try_from(passed.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_never_goes_back() {
        let readings: Vec<_> = (0..1000).map(|_| since_boot_us()).collect();
        assert!(readings.is_sorted());
    }
}
