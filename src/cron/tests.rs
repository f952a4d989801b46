//! What an expression means, and what the zones' clocks do to it.

use redis_mq_core::{Calendar, Timestamp};

use super::{check, Cron};
use crate::error::Error;

/// The next match after a second since the epoch.
fn next(expression: &str, zone: &str, after: i64) -> Option<i64> {
    let after = Timestamp::from_millis(after as u64 * 1000);
    let found = Cron.next(expression.as_bytes(), zone.as_bytes(), after)?;
    assert_eq!(found.millis() % 1000, 0);
    assert!(found > after);
    Some((found.millis() / 1000) as i64)
}

/// 2026-01-01T00:00:00Z, a Thursday.
const NEW_YEAR: i64 = 1_767_225_600;
const MINUTE: i64 = 60;
const HOUR: i64 = 3_600;
const DAY: i64 = 86_400;

/// The first runs after new year's midnight in UTC, as days and seconds of the day.
fn runs(expression: &str, count: usize) -> Vec<(i64, i64)> {
    let mut at = NEW_YEAR;
    let all = std::iter::from_fn(|| {
        at = next(expression, "UTC", at)?;
        let since = at - NEW_YEAR;
        Some((since / DAY, since % DAY))
    });
    all.take(count).collect()
}

#[test]
fn fields_are_minute_hour_day_month_and_weekday_with_seconds_in_front_if_there_are_six() {
    assert_eq!(runs("30 2 * * *", 2), [(0, 9_000), (1, 9_000)]);
    assert_eq!(runs("5 30 2 * * *", 1), [(0, 9_005)]);
    assert_eq!(
        runs("*/20 * * * * *", 4),
        [(0, 20), (0, 40), (0, 60), (0, 80)]
    );
    assert_eq!(
        runs("10-30/10,59 * * * *", 4),
        [(0, 600), (0, 1_200), (0, 1_800), (0, 3_540)]
    );
    assert_eq!(
        runs("50/5 0 * * *", 3),
        [(0, 3_000), (0, 3_300), (1, 3_000)]
    );
    assert_eq!(runs("0 0 1 feb,Mar *", 2), [(31, 0), (59, 0)]);
    assert_eq!(runs("\t0  0 5 1 ? ", 1), [(4, 0)]);
}

#[test]
fn days_of_the_week_have_names_and_two_numbers_for_sunday() {
    for sunday in ["0", "7", "SUN", "sun"] {
        assert_eq!(runs(&format!("0 0 * * {sunday}"), 2), [(3, 0), (10, 0)]);
    }
    assert_eq!(
        runs("0 9 * * MON-FRI", 3),
        [(0, 32_400), (1, 32_400), (4, 32_400)]
    );
    assert_eq!(runs("0 0 * * 5-7", 4), [(1, 0), (2, 0), (3, 0), (8, 0)]);
}

#[test]
fn last_and_nth_days_are_those_of_the_month() {
    assert_eq!(runs("0 0 L * *", 3), [(30, 0), (58, 0), (89, 0)]);
    assert_eq!(runs("0 0 * * FRI#2", 2), [(8, 0), (43, 0)]);
    assert_eq!(
        runs("0 0 * * 5#5", 2),
        [(29, 0), (148, 0)],
        "not every month"
    );
    assert_eq!(runs("0 0 * * friL", 2), [(29, 0), (57, 0)]);
    assert_eq!(runs("0 0 * * 7L", 1), [(24, 0)]);
}

#[test]
fn either_day_is_enough_unless_one_of_them_begins_with_a_star() {
    assert_eq!(runs("0 0 10 * MON", 3), [(4, 0), (9, 0), (11, 0)]);
    assert_eq!(runs("0 0 */10 * SUN", 2), [(10, 0), (31, 0)]);
}

#[test]
fn words_stand_for_expressions() {
    for (word, meant) in [
        ("@yearly", "0 0 1 1 *"),
        ("@Annually", "0 0 1 1 *"),
        ("@monthly", "0 0 1 * *"),
        ("@weekly", "0 0 * * 0"),
        ("@daily", "0 0 * * *"),
        ("@MIDNIGHT", "0 0 * * *"),
        ("@hourly", "0 * * * *"),
    ] {
        assert_eq!(runs(word, 5), runs(meant, 5), "{word}");
    }
}

#[test]
fn leap_days_are_found_over_eight_years_without_one() {
    let at = |seconds| next("0 0 29 2 *", "UTC", seconds);
    assert_eq!(at(NEW_YEAR), Some(1_835_395_200), "2028");
    let in_2096 = 3_981_312_000;
    assert_eq!(at(in_2096 - 1), Some(in_2096));
    assert_eq!(at(in_2096), Some(4_233_686_400), "2104");
}

#[test]
fn what_matches_no_day_is_never_due() {
    for hopeless in [
        "0 0 30 2 *",
        "0 0 31 2,4,6,9,11 *",
        "* * * 31 2 *",
        "0 0 31 2 *",
    ] {
        assert_eq!(check(hopeless.as_bytes(), b"UTC"), Ok(()), "{hopeless}");
        for zone in zones() {
            assert_eq!(next(hopeless, zone, NEW_YEAR), None, "{hopeless}");
        }
    }
}

#[test]
fn what_is_no_expression_is_refused() {
    let too_long = "1,".repeat(300);
    for wrong in [
        "",
        " ",
        "*",
        "* * * *",
        "* * * * * * *",
        "60 * * * *",
        "* 24 * * *",
        "* * 0 * *",
        "* * 32 * *",
        "* * * 13 *",
        "* * * 0 *",
        "* * * * 8",
        "60 * * * * *",
        "-1 * * * *",
        "*/0 * * * *",
        "*/60 * * * *",
        "5-1 * * * *",
        "1-2-3 * * * *",
        "1//2 * * * *",
        ", * * * *",
        "1,, * * * *",
        "a * * * *",
        "* * * JANUARY *",
        "* * * * MO",
        "* * * * SUN#0",
        "* * * * SUN#6",
        "* * * * #1",
        "* * * * L",
        "* * L-1 * *",
        "* * 15W * *",
        "001 * * * *",
        "+1 * * * *",
        "@reboot",
        "@",
        "@daily ",
        "१ * * * *",
        "*\n* * * *",
        "* * * * *\0",
        "** * * * *",
        "*1 * * * *",
        &too_long,
    ] {
        assert_eq!(
            check(wrong.as_bytes(), b"UTC"),
            Err(Error::BadCron),
            "{wrong:?}"
        );
        assert_eq!(next(wrong, "UTC", NEW_YEAR), None);
    }
    assert_eq!(check(b"\xFF * * * *", b"UTC"), Err(Error::BadCron));
}

#[test]
fn utc_is_known_without_a_database_and_under_all_its_names() {
    for name in ["UTC", "utc", "Etc/UTC", "GMT", "Z"] {
        assert_eq!(check(b"@daily", name.as_bytes()), Ok(()), "{name}");
    }
    let unknown = [
        &b"Europe/Zuerich"[..],
        b"",
        b"CEST",
        b"+01:00",
        b"\xFF",
        b"../UTC",
    ];
    let expected = if cfg!(feature = "timezones") {
        Error::UnknownZone
    } else {
        Error::NoZones
    };
    for name in unknown {
        assert_eq!(check(b"@daily", name), Err(expected), "{name:?}");
    }
}

#[test]
fn the_search_ends_where_time_does() {
    let last = Timestamp::MAX;
    for zone in zones() {
        let zone = zone.as_bytes();
        assert_eq!(Cron.next(b"* * * * * *", zone, last), None);
        let before = Timestamp::from_millis(last.millis() - 10 * 366 * 86_400_000);
        assert_eq!(Cron.next(b"0 0 30 2 *", zone, before), None);
        assert!(Cron.next(b"0 0 29 2 *", zone, Timestamp::ZERO).is_some());
    }
}

#[cfg(not(feature = "timezones"))]
fn zones() -> [&'static str; 1] {
    ["UTC"]
}

#[cfg(feature = "timezones")]
use clock_changes::zones;

#[cfg(feature = "timezones")]
mod clock_changes;
