//! The pause that doubles: between retries, and between polls of an empty queue.

use crate::types::Span;

/// `(2^(n-1) + random × 2^(n-1)) × 0.5 × factor`, at most `max`: for a factor of 2200 ms, 550 to
/// 1100 ms for n = 0, 1100 to 2200 for n = 1, and so on.
///
/// `random` is 64 random bits; they give a fraction in [0, 1).
pub fn exp_backoff(n: u32, random: u64, factor: Span, max: Span) -> Span {
    // 53 bits are what a double holds exactly.
    let fraction = (random >> 11) as f64 / (1u64 << 53) as f64;
    // Beyond 2^64 every factor of at least 1 ms has passed the longest pause.
    let base = 2f64.powi(n.min(64) as i32 - 1);
    let ms = (base + fraction * base) * 0.5 * factor.millis() as f64;
    Span::from_millis((ms as u64).min(max.millis()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FACTOR: Span = Span::from_millis(2200);

    #[test]
    fn doubles_from_550_and_stays_below_the_next_step() {
        for (n, low) in [(0, 550), (1, 1100), (2, 2200), (3, 4400), (4, 8800)] {
            assert_eq!(exp_backoff(n, 0, FACTOR, Span::MAX).millis(), low);
            let high = exp_backoff(n, u64::MAX, FACTOR, Span::MAX).millis();
            assert!((2 * low - 1..=2 * low).contains(&high), "{n}: {high}");
        }
    }

    #[test]
    fn never_passes_the_maximum() {
        let max = Span::from_millis(5000);
        assert_eq!(exp_backoff(5, 0, FACTOR, max), max);
        assert_eq!(exp_backoff(u32::MAX, u64::MAX, FACTOR, max), max);
        assert_eq!(
            exp_backoff(u32::MAX, u64::MAX, Span::MAX, Span::MAX),
            Span::MAX
        );
    }
}
