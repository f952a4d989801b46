//! How limits and pauses are written in effects and snapshots: as fields, in which what is not
//! limited is not there.

use crate::codec::{put_bytes, Damaged, Reader};
use crate::effects::read_span;
use crate::fields::{end_fields, put_numbers, read_fields};
use crate::groups::MAX_GROUP_BYTES;
use crate::limits::{GroupLimits, QueueLimits, Scope, UNLIMITED};
use crate::rate::Rate;
use crate::types::{Span, Timestamp};

const LENGTH: u64 = 2;
const BYTES: u64 = 4;
const INFLIGHT: u64 = 6;
const RATE: u64 = 8;
const DEAD: u64 = 10;
const DEAD_AGE: u64 = 12;
const ATTEMPTS: u64 = 14;
const IDLE: u64 = 16;

pub(crate) fn put_scope(out: &mut Vec<u8>, scope: Scope<'_>) {
    match scope {
        Scope::Queue => out.push(0),
        Scope::Groups => out.push(1),
        Scope::Group(name) => {
            out.push(2);
            put_bytes(out, name);
        }
    }
}

pub(crate) fn read_scope<'a>(reader: &mut Reader<'a>) -> Result<Scope<'a>, Damaged> {
    match reader.byte()? {
        0 => Ok(Scope::Queue),
        1 => Ok(Scope::Groups),
        2 => match reader.bytes()? {
            name if name.is_empty() || name.len() > MAX_GROUP_BYTES => {
                Err(Damaged("the name of a group of a length it cannot have"))
            }
            name => Ok(Scope::Group(name)),
        },
        _ => Err(Damaged("an unknown scope of limits")),
    }
}

pub(crate) fn put_limits(out: &mut Vec<u8>, limits: &QueueLimits) {
    let mut one = |field, value: Option<u64>| {
        if let Some(value) = value {
            put_numbers(out, field, &[value]);
        }
    };
    one(LENGTH, limits.length);
    one(BYTES, limits.bytes);
    one(INFLIGHT, limits.inflight.map(u64::from));
    if let Some(rate) = limits.rate {
        let numbers = [
            u64::from(rate.deliveries()),
            rate.span().millis(),
            u64::from(rate.burst()),
        ];
        put_numbers(out, RATE, &numbers);
    }
    let mut one = |field, value: Option<u64>| {
        if let Some(value) = value {
            put_numbers(out, field, &[value]);
        }
    };
    one(DEAD, limits.dead.map(u64::from));
    one(DEAD_AGE, limits.dead_age.map(Span::millis));
    one(ATTEMPTS, limits.attempts.map(u64::from));
    one(IDLE, limits.idle.map(Span::millis));
    end_fields(out);
}

fn read_count(reader: &mut Reader<'_>) -> Result<u32, Damaged> {
    Ok(reader.number_to(u64::from(u32::MAX))? as u32)
}

fn read_rate(reader: &mut Reader<'_>) -> Result<Rate, Damaged> {
    let deliveries = read_count(reader)?;
    let span = read_span(reader)?;
    let burst = read_count(reader)?;
    Rate::new(deliveries, span, burst).ok_or(Damaged("a rate of nothing"))
}

/// Limits that `scope` can have.
pub(crate) fn read_limits(
    reader: &mut Reader<'_>,
    scope: Scope<'_>,
) -> Result<QueueLimits, Damaged> {
    let mut limits = QueueLimits::default();
    read_fields(reader, |field| {
        match field.number {
            LENGTH => limits.length = Some(field.read(Reader::number)?),
            BYTES => limits.bytes = Some(field.read(Reader::number)?),
            INFLIGHT => limits.inflight = Some(field.read(read_count)?),
            RATE => limits.rate = Some(field.read(read_rate)?),
            DEAD => limits.dead = Some(field.read(read_count)?),
            DEAD_AGE => limits.dead_age = Some(field.read(read_span)?),
            ATTEMPTS => limits.attempts = Some(field.read(read_count)?),
            IDLE => limits.idle = Some(field.read(read_span)?),
            _ => return field.pass_over(),
        }
        Ok(())
    })?;
    let mut sound = limits;
    if scope == Scope::Groups && sound.inflight == Some(UNLIMITED) {
        sound.inflight = None;
    }
    let fits = scope == Scope::Queue || QueueLimits::from(GroupLimits::from(limits)) == limits;
    if fits && sound.is_sound() {
        Ok(limits)
    } else {
        Err(Damaged("limits that cannot be"))
    }
}

/// The number that stands for a pause: zero for none.
pub(crate) fn pause_number(until: Option<Timestamp>) -> u64 {
    until.map_or(0, |until| until.millis() + 1)
}

pub(crate) fn read_pause(reader: &mut Reader<'_>) -> Result<Option<Timestamp>, Damaged> {
    let number = reader.number_to(Timestamp::MAX.millis() + 1)?;
    Ok(number.checked_sub(1).map(Timestamp::from_millis))
}

/// Writes a pause where one is.
pub(crate) fn put_pause(out: &mut Vec<u8>, field: u64, until: Option<Timestamp>) {
    if until.is_some() {
        put_numbers(out, field, &[pause_number(until)]);
    }
}
