//! A cron expression as it is read: five fields, or six with seconds first, or a word such as `@daily`.

/// What an expression says, each set as bits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expression {
    pub seconds: u64,
    pub minutes: u64,
    pub hours: u64,
    months: u64,
    days: Days,
    weekdays: Weekdays,
    /// Seconds, minutes or hours begin with `*`: it is about how much time has passed, not about a time
    /// of the day, so it goes by real time where local time makes a jump.
    pub follows_real_time: bool,
}

/// Days of the month.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Days {
    numbers: u64,
    last: bool,
    /// The field begins with `*`.
    any: bool,
}

/// Days of the week; Sunday is 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Weekdays {
    numbers: u64,
    /// For each day of the week, bit n for the nth of the month, and bit 0 for the last.
    nth: [u8; 7],
    any: bool,
}

const MONTHS: [&str; 12] = [
    "JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC",
];
const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

/// What the words stand for.
const NICKNAMES: [(&str, &str); 7] = [
    ("@yearly", "0 0 1 1 *"),
    ("@annually", "0 0 1 1 *"),
    ("@monthly", "0 0 1 * *"),
    ("@weekly", "0 0 * * 0"),
    ("@daily", "0 0 * * *"),
    ("@midnight", "0 0 * * *"),
    ("@hourly", "0 * * * *"),
];

/// A date: how the search looks at a day.
#[derive(Clone, Copy, Debug)]
pub struct Date {
    pub month: u32,
    pub day: u32,
    /// Sunday is 0.
    pub weekday: u32,
    pub days_in_month: u32,
}

impl Expression {
    /// None if it is no expression.
    pub fn parse(text: &[u8]) -> Option<Expression> {
        let text = std::str::from_utf8(text).ok()?;
        let mut nicknames = NICKNAMES.iter();
        let found = nicknames.find(|(name, _)| name.eq_ignore_ascii_case(text));
        let text = found.map_or(text, |(_, meant)| *meant);
        let fields: Vec<&str> = text.split([' ', '\t']).filter(|f| !f.is_empty()).collect();
        let (second, rest) = match fields.as_slice() {
            rest @ [_, _, _, _, _] => ("0", rest),
            [second, rest @ ..] if rest.len() == 5 => (*second, rest),
            _ => return None,
        };
        let [minute, hour, day, month, weekday] = rest.try_into().ok()?;
        let any = |field: &str| field.starts_with('*');
        Some(Expression {
            seconds: numbers(second, 0, 59, &[])?,
            minutes: numbers(minute, 0, 59, &[])?,
            hours: numbers(hour, 0, 23, &[])?,
            months: numbers(month, 1, 12, &MONTHS)?,
            days: Days::parse(day)?,
            weekdays: Weekdays::parse(weekday)?,
            follows_real_time: any(second) || any(minute) || any(hour),
        })
    }

    /// Whether it matches at some time of the day. Where both the day of the month and that of the week
    /// are given, one of them is enough, as in every cron.
    pub fn matches_day(&self, date: Date) -> bool {
        if self.months >> date.month & 1 == 0 {
            return false;
        }
        let (day, weekday) = (self.days.matches(date), self.weekdays.matches(date));
        if self.days.any || self.weekdays.any {
            day && weekday
        } else {
            day || weekday
        }
    }
}

impl Days {
    fn parse(field: &str) -> Option<Days> {
        let mut days = Days {
            any: field.starts_with(['*', '?']),
            ..Days::default()
        };
        for item in field.split(',') {
            if item.eq_ignore_ascii_case("L") {
                days.last = true;
            } else {
                days.numbers |= range(item, 1, 31, &[])?;
            }
        }
        Some(days)
    }

    fn matches(self, date: Date) -> bool {
        self.numbers >> date.day & 1 == 1 || (self.last && date.day == date.days_in_month)
    }
}

impl Weekdays {
    fn parse(field: &str) -> Option<Weekdays> {
        let mut weekdays = Weekdays {
            any: field.starts_with(['*', '?']),
            ..Weekdays::default()
        };
        for item in field.split(',') {
            if let Some((day, nth)) = item.split_once('#') {
                let nth = number(nth, 1, 5, &[])?;
                *weekdays.nth.get_mut(weekday(day)?)? |= 1 << nth;
            } else if let Some(day) = item.strip_suffix(['L', 'l']) {
                *weekdays.nth.get_mut(weekday(day)?)? |= 1;
            } else {
                let numbers = range(item, 0, 7, &WEEKDAYS)?;
                // Sunday is 0 and 7.
                weekdays.numbers |= numbers & 0x7F | numbers >> 7;
            }
        }
        Some(weekdays)
    }

    fn matches(self, date: Date) -> bool {
        let nth = self.nth.get(date.weekday as usize).copied().unwrap_or(0);
        let which = (date.day - 1) / 7 + 1;
        let is_last = date.day + 7 > date.days_in_month;
        self.numbers >> date.weekday & 1 == 1 || nth >> which & 1 == 1 || (is_last && nth & 1 == 1)
    }
}

fn weekday(text: &str) -> Option<usize> {
    Some(number(text, 0, 7, &WEEKDAYS)? as usize % 7)
}

/// A list of items, as bits.
fn numbers(field: &str, min: u32, max: u32, names: &[&str]) -> Option<u64> {
    let mut bits = 0;
    for item in field.split(',') {
        bits |= range(item, min, max, names)?;
    }
    Some(bits)
}

/// `*`, a number, a range, or one of them with a step.
fn range(item: &str, min: u32, max: u32, names: &[&str]) -> Option<u64> {
    let (range, step) = match item.split_once('/') {
        Some((range, step)) => (range, Some(number(step, 1, max.max(1), &[])?)),
        None => (item, None),
    };
    let (first, last) = if range == "*" || range == "?" {
        // The week's 7 is its 0 once more.
        (min, if max == 7 { 6 } else { max })
    } else if let Some((first, last)) = range.split_once('-') {
        (
            number(first, min, max, names)?,
            number(last, min, max, names)?,
        )
    } else {
        let first = number(range, min, max, names)?;
        // `5/10` is from 5 on.
        (first, if step.is_some() { max } else { first })
    };
    if first > last {
        return None;
    }
    let steps = (first..=last).step_by(step.unwrap_or(1) as usize);
    Some(steps.fold(0, |bits, number| bits | 1 << number))
}

/// A number of at most two digits, or a name.
fn number(text: &str, min: u32, max: u32, names: &[&str]) -> Option<u32> {
    let number = match names
        .iter()
        .position(|name| name.eq_ignore_ascii_case(text))
    {
        Some(at) => at as u32 + min,
        None => {
            let is_number =
                (1..=2).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit());
            is_number.then(|| text.parse().ok())??
        }
    };
    (min..=max).contains(&number).then_some(number)
}
