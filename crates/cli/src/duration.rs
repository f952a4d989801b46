//! Times as people write and read them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The longest time that the server takes, in milliseconds: ten years.
const LONGEST_MS: u64 = 315_360_000_000;

/// Reads a time: a number of milliseconds, or numbers with units, as in `90s`, `5m` or `1h 30m`.
pub fn parse(text: &str) -> Result<Duration, String> {
    let time = match text.parse::<u64>() {
        Ok(ms) => Duration::from_millis(ms),
        Err(_) => humantime::parse_duration(text)
            .map_err(|_| "a time is milliseconds, or as in 90s, 5m, 2h, 1d".to_string())?,
    };
    if time.as_millis() > u128::from(LONGEST_MS) {
        return Err("longer than ten years".into());
    }
    Ok(time)
}

/// [`parse`] where no time at all makes no sense.
pub fn parse_above_zero(text: &str) -> Result<Duration, String> {
    match parse(text)? {
        Duration::ZERO => Err("has to be more than 0".into()),
        time => Ok(time),
    }
}

/// Reads an instant: Unix milliseconds, or as in `2030-01-31T08:00:00Z`. The result is Unix
/// milliseconds.
pub fn parse_instant(text: &str) -> Result<u64, String> {
    if let Ok(ms) = text.parse() {
        return Ok(ms);
    }
    let at = humantime::parse_rfc3339_weak(text)
        .map_err(|_| "an instant is Unix milliseconds, or as in 2030-01-31T08:00:00Z")?;
    let since = at
        .duration_since(UNIX_EPOCH)
        .map_err(|_| "before the year 1970")?;
    Ok(millis(since))
}

/// Whole milliseconds; parts of one count as one.
pub fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)
}

/// A time of some milliseconds in at most six letters: `850ms`, `12s`, `3m 5s`, `2h 4m`, `9d 1h`.
pub fn show(ms: u64) -> String {
    let pair = |big: u64, unit: &str, small: u64, sub: &str| match small {
        0 => format!("{big}{unit}"),
        _ => format!("{big}{unit} {small}{sub}"),
    };
    let (seconds, minutes, hours) = (ms / 1_000, ms / 60_000, ms / 3_600_000);
    match ms {
        0..1_000 => format!("{ms}ms"),
        1_000..60_000 => format!("{seconds}s"),
        60_000..3_600_000 => pair(minutes, "m", seconds % 60, "s"),
        3_600_000..86_400_000 => pair(hours, "h", minutes % 60, "m"),
        _ => pair(hours / 24, "d", hours % 24, "h"),
    }
}

/// An instant of some Unix milliseconds, to the second, with how far it is from now.
pub fn show_instant(ms: u64) -> String {
    let at = UNIX_EPOCH + Duration::from_millis(ms);
    let written = humantime::format_rfc3339_seconds(at);
    let now = SystemTime::now();
    match now.duration_since(at) {
        Ok(ago) => format!("{written}, {} ago", show(millis(ago))),
        Err(ahead) => format!("{written}, in {}", show(millis(ahead.duration()))),
    }
}

/// How long ago that instant of Unix milliseconds is, as [`show`] does.
pub fn age(ms: u64) -> String {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    show(millis(now).saturating_sub(ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_milliseconds_or_have_units() {
        assert_eq!(parse("1500"), Ok(Duration::from_millis(1_500)));
        assert_eq!(parse("5m"), Ok(Duration::from_secs(300)));
        assert_eq!(parse("1h 30m"), Ok(Duration::from_secs(5_400)));
        for wrong in ["", "-1", "1.5", "soon", "11y", "400000000000"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
        assert!(parse_above_zero("0s").is_err());
    }

    #[test]
    fn instants_are_unix_milliseconds_or_dates() {
        assert_eq!(parse_instant("1796101669540"), Ok(1_796_101_669_540));
        assert_eq!(parse_instant("1970-01-01T00:00:01Z"), Ok(1_000));
        assert!(parse_instant("tomorrow").is_err());
    }

    #[test]
    fn times_are_shown_with_their_two_largest_units() {
        for (ms, shown) in [
            (0, "0ms"),
            (999, "999ms"),
            (59_999, "59s"),
            (60_000, "1m"),
            (185_000, "3m 5s"),
            (7_440_000, "2h 4m"),
            (781_200_000, "9d 1h"),
        ] {
            assert_eq!(show(ms), shown);
        }
    }
}
