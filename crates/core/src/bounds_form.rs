//! Limits, pauses and groups in snapshots. Which messages a group has, which of them holds it and
//! whose turn is next is said by the messages and their order; here is what they do not say.

use crate::codec::{put_bytes, Damaged, Reader};
use crate::fields::{end_fields, put_field, put_numbers, read_fields, Field};
use crate::groups::{Extra, Group, MAX_GROUP_BYTES};
use crate::limits::{QueueLimits, Scope};
use crate::limits_form::{put_limits, put_pause, read_limits, read_pause};
use crate::queue::Queue;
use crate::rate::Meter;
use crate::types::{Timestamp, Token};

/// Fields of a snapshot's header.
const LIMITS: u64 = 20;
const GROUP_LIMITS: u64 = 22;
const PAUSE: u64 = 24;
/// What the rate has used up, and the token from which on the limit of attempts counts.
const METERS: u64 = 26;

/// Fields of a group.
const OWN_LIMITS: u64 = 2;
const METER: u64 = 4;
const OWN_PAUSE: u64 = 6;
/// When time acts on it, and whether it may not be served until then.
const TIMER: u64 = 8;

fn put_limits_field(out: &mut Vec<u8>, field: u64, limits: &QueueLimits) {
    if *limits != QueueLimits::default() {
        let mut value = Vec::new();
        put_limits(&mut value, limits);
        put_field(out, field, &value);
    }
}

impl Queue {
    /// Writes the fields of the header.
    pub(crate) fn write_bounds(&self, out: &mut Vec<u8>) {
        put_limits_field(out, LIMITS, &self.limits());
        put_limits_field(out, GROUP_LIMITS, &self.group_limits(None).into());
        if let Some(bounds) = &self.bounds {
            put_pause(out, PAUSE, bounds.pause);
            let meters = [bounds.meter.stored(), bounds.attempts_from];
            if meters != [0, 0] {
                put_numbers(out, METERS, &meters);
            }
        }
    }

    /// Takes a field of the header.
    pub(crate) fn read_bound(&mut self, field: Field<'_>) -> Result<(), Damaged> {
        match field.number {
            LIMITS => {
                let limits = field.read(|reader| read_limits(reader, Scope::Queue))?;
                self.bounds_or_new().limits = limits;
            }
            GROUP_LIMITS => {
                let limits = field.read(|reader| read_limits(reader, Scope::Groups))?;
                self.take_limits(Scope::Groups, limits);
            }
            PAUSE => self.bounds_or_new().pause = field.read(read_pause)?,
            METERS => {
                let read = |reader: &mut Reader<'_>| {
                    Ok((reader.number()?, reader.number_to(Token::MAX.value())?))
                };
                let (meter, from) = field.read(read)?;
                let bounds = self.bounds_or_new();
                (bounds.meter, bounds.attempts_from) = (Meter::from_stored(meter), from);
            }
            _ => return field.pass_over(),
        }
        self.drop_idle_bounds();
        Ok(())
    }

    /// Visits the groups that have something of their own, by name.
    pub(crate) fn for_each_own_group(&self, mut visit: impl FnMut(&Group)) {
        if let Some(groups) = &self.groups {
            let slots = groups.by_name().into_iter();
            let own = slots.map(|slot| groups.get(slot));
            own.filter(|group| group.extra.is_some())
                .for_each(&mut visit);
        }
    }

    /// Reads what a group has of its own.
    pub(crate) fn read_group(&mut self, reader: &mut Reader<'_>) -> Result<(), Damaged> {
        let name = reader.bytes()?;
        if name.is_empty() || name.len() > MAX_GROUP_BYTES || self.find_group(name).is_some() {
            return Err(Damaged("a group that cannot be"));
        }
        let mut extra = Extra::default();
        let (mut due, mut shut) = (Timestamp::ZERO, false);
        read_fields(reader, |field| {
            match field.number {
                OWN_LIMITS => {
                    let limits = field.read(|reader| read_limits(reader, Scope::Group(name)))?;
                    extra.limits = Some(Box::new(limits.into()));
                }
                METER => extra.meter = Meter::from_stored(field.read(Reader::number)?),
                OWN_PAUSE => extra.pause = field.read(read_pause)?,
                TIMER => {
                    (due, shut) = field.read(|reader| {
                        let due = crate::effects::read_instant(reader)?;
                        Ok((due, reader.number_to(1)? == 1))
                    })?;
                }
                _ => return field.pass_over(),
            }
            Ok(())
        })?;
        // A group that is shut for ever by nothing that anybody could end would be lost.
        let can_end = due != Timestamp::ZERO || extra.pause == Some(Timestamp::ZERO);
        let is_paused = extra.pause.is_some();
        if extra == Extra::default() || (shut && !can_end) || (is_paused && !shut) {
            return Err(Damaged("a group that cannot be so"));
        }
        let group = self.group_or_new(name);
        self.groups_or_new().load(group, extra, due, shut);
        Ok(())
    }
}

impl Group {
    /// Writes what the group has of its own.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        put_bytes(out, &self.key);
        put_limits_field(out, OWN_LIMITS, &self.own_limits().into());
        if self.meter() != Meter::default() {
            put_numbers(out, METER, &[self.meter().stored()]);
        }
        put_pause(out, OWN_PAUSE, self.pause());
        if self.is_shut() || self.due() != Timestamp::ZERO {
            put_numbers(
                out,
                TIMER,
                &[self.due().millis(), u64::from(self.is_shut())],
            );
        }
        end_fields(out);
    }
}
