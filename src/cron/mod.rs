//! The calendar of schedules: what cron expressions mean, in which time zone.
//!
//! Only a server that decides asks it; replicas get instants. What a request may hold is read by
//! `expression`, the next match is found by `search`, and `zone` knows how local time goes. Nothing here
//! panics or searches for long, whatever the bytes.

mod expression;
mod search;
#[cfg(test)]
mod tests;
mod zone;

use redis_mq_core::{Calendar, Timestamp};

use crate::error::Error;
use expression::Expression;
pub use zone::database_version;
use zone::Zone;

/// The calendar that turns take along.
#[derive(Debug)]
pub struct Cron;

impl Calendar for Cron {
    fn next(&self, expression: &[u8], zone: &[u8], after: Timestamp) -> Option<Timestamp> {
        let expression = Expression::parse(expression)?;
        let zone = Zone::named(zone).ok()?;
        search::next(&expression, &zone, after)
    }
}

/// Says what is wrong with an expression or with the name of a time zone.
pub fn check(expression: &[u8], zone: &[u8]) -> Result<(), Error> {
    Expression::parse(expression).ok_or(Error::BadCron)?;
    Zone::named(zone).map(drop)
}
