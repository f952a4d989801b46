//! The next match of an expression.
//!
//! Time is cut where the zone's clock makes a jump. Between two jumps local time is real time and an
//! offset, so days and times of the day can be counted. At a jump:
//!
//! - what goes by real time (`*` in hours, minutes or seconds) runs whenever the clock shows it;
//! - what names a time of the day runs right after the jump if that was left out, and only the first
//!   time if it comes twice.

use redis_mq_core::Timestamp;

use super::expression::{Date, Expression};
use super::zone::{Stretch, Zone};

const DAY: i64 = 86_400;

/// How far the search looks: ten years, and some days for the leap years in them.
const LONGEST: i64 = 3_660 * DAY;

/// The first instant after `after`; none if there is none in ten years.
pub fn next(expression: &Expression, zone: &Zone, after: Timestamp) -> Option<Timestamp> {
    let after = i64::try_from(after.millis()).ok()?;
    // Runs are at whole seconds.
    let begin = after.div_euclid(1000) + 1;
    let end = begin + LONGEST;
    let mut from = begin;
    while from < end {
        let stretch = zone.stretch(from);
        if let Some(found) = in_stretch(expression, &stretch, from, end) {
            let ms = u64::try_from(found).ok()?.checked_mul(1000)?;
            return (ms <= Timestamp::MAX.millis()).then_some(Timestamp::from_millis(ms));
        }
        from = stretch.end?;
    }
    None
}

/// The first match from `from` on while the zone's clock makes no jump.
fn in_stretch(expression: &Expression, stretch: &Stretch, from: i64, end: i64) -> Option<i64> {
    let mut local = from + stretch.offset;
    if let (Some(jump), false) = (stretch.jump, expression.follows_real_time) {
        let would_be = jump.at + jump.offset_before;
        let is = jump.at + stretch.offset;
        if from == jump.at && would_be < is && matches_within(expression, would_be, is) {
            return Some(from);
        }
        // What comes a second time is over.
        local = local.max(would_be);
    }
    let end = stretch.end.map_or(end, |jump| jump.min(end));
    let found = first_match(expression, local, end + stretch.offset)?;
    Some(found - stretch.offset)
}

fn matches_within(expression: &Expression, from: i64, end: i64) -> bool {
    first_match(expression, from, end).is_some()
}

/// The first match of local time, in seconds since the epoch, before `end`.
fn first_match(expression: &Expression, from: i64, end: i64) -> Option<i64> {
    let (mut day, mut second) = (from.div_euclid(DAY), from.rem_euclid(DAY));
    let mut date = CalendarDay::of(day);
    while day * DAY < end {
        if expression.matches_day(date.date()) {
            if let Some(second) = first_of_day(expression, second as u32) {
                let found = day * DAY + i64::from(second);
                return (found < end).then_some(found);
            }
        }
        (day, second) = (day + 1, 0);
        date.next();
    }
    None
}

/// The first match of a day from that second of it on.
fn first_of_day(expression: &Expression, from: u32) -> Option<u32> {
    let (hour, minute, second) = (from / 3600, from / 60 % 60, from % 60);
    let Expression {
        seconds,
        minutes,
        hours,
        ..
    } = *expression;
    let mut at = first_bit(hours, hour)?;
    if at == hour {
        let mut of_hour = first_bit(minutes, minute);
        if of_hour == Some(minute) {
            if let Some(second) = first_bit(seconds, second) {
                return Some(hour * 3600 + minute * 60 + second);
            }
            of_hour = first_bit(minutes, minute + 1);
        }
        if let Some(minute) = of_hour {
            return Some(hour * 3600 + minute * 60 + first_bit(seconds, 0)?);
        }
        at = first_bit(hours, hour + 1)?;
    }
    Some(at * 3600 + first_bit(minutes, 0)? * 60 + first_bit(seconds, 0)?)
}

/// The lowest bit from `from` on, which may be beyond all.
fn first_bit(bits: u64, from: u32) -> Option<u32> {
    let rest = bits.checked_shr(from)?;
    (rest != 0).then(|| from + rest.trailing_zeros())
}

/// A day of the Gregorian calendar, for a walk from one day to the next.
#[derive(Clone, Copy, Debug)]
struct CalendarDay {
    year: i64,
    month: u32,
    day: u32,
    weekday: u32,
}

impl CalendarDay {
    /// The day so many days after 1970-01-01 (Hinnant, "chrono-compatible low-level date algorithms").
    fn of(day: i64) -> CalendarDay {
        let shifted = day + 719_468;
        let era = shifted.div_euclid(146_097);
        let day_of_era = shifted.rem_euclid(146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let from_march = (5 * day_of_year + 2) / 153;
        let month = if from_march < 10 {
            from_march + 3
        } else {
            from_march - 9
        };
        CalendarDay {
            year: year_of_era + era * 400 + i64::from(month <= 2),
            month: month as u32,
            day: (day_of_year - (153 * from_march + 2) / 5 + 1) as u32,
            weekday: (day + 4).rem_euclid(7) as u32,
        }
    }

    fn days_in_month(self) -> u32 {
        match self.month {
            2 if self.year % 4 == 0 && (self.year % 100 != 0 || self.year % 400 == 0) => 29,
            2 => 28,
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        }
    }

    fn next(&mut self) {
        self.weekday = (self.weekday + 1) % 7;
        if self.day < self.days_in_month() {
            self.day += 1;
            return;
        }
        self.day = 1;
        if self.month < 12 {
            self.month += 1;
        } else {
            (self.month, self.year) = (1, self.year + 1);
        }
    }

    fn date(self) -> Date {
        Date {
            month: self.month,
            day: self.day,
            weekday: self.weekday,
            days_in_month: self.days_in_month(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_counted_as_the_calendar_does() {
        let mut day = CalendarDay::of(0);
        assert_eq!((day.year, day.month, day.day, day.weekday), (1970, 1, 1, 4));
        for number in 0..100_000 {
            let there = CalendarDay::of(number);
            let of = |day: CalendarDay| (day.year, day.month, day.day, day.weekday);
            assert_eq!(of(there), of(day), "day {number}");
            day.next();
        }
        let day = CalendarDay::of(19_782);
        assert_eq!(
            (day.year, day.month, day.day, day.weekday),
            (2024, 2, 29, 4)
        );
    }
}
