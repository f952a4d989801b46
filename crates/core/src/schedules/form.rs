//! The binary form of a schedule, the same in effects and snapshots (docs/format.md).

use crate::codec::{put_bytes, Damaged, Reader};
use crate::effects::{read_instant, read_span, Content};
use crate::fields::{end_fields, put_field, put_numbers, read_fields};
use crate::schedules::plan::{History, Overlap, Plan, RunOutcome, Times};
use crate::schedules::{MAX_CRON_BYTES, MAX_NAME_BYTES, MAX_NAME_BYTES_ALLOW, MAX_ZONE_BYTES};
use crate::types::{Span, Timestamp, MAX_SPAN_MS};

/// A schedule as it is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Definition<'a> {
    pub name: &'a [u8],
    pub plan: Plan<'a>,
    pub overlap: Overlap,
    /// What each run is. Its times are counted from a run's own: it was enqueued at the epoch.
    pub content: Content<'a>,
    pub history: History,
}

const EVERY: u64 = 2;
const CRON: u64 = 4;
const ZONE: u64 = 6;
const FROM: u64 = 8;
const UNTIL: u64 = 10;
const MOST: u64 = 12;
const OVERLAP: u64 = 14;
const NEXT: u64 = 16;
const LAST: u64 = 17;
/// Runs as they count for the most of them, all runs, and those left out.
const COUNTS: u64 = 19;

const AFTER: u64 = 1;
const ALLOW: u64 = 2;

impl<'a> Definition<'a> {
    pub fn write(&self, out: &mut Vec<u8>) {
        put_bytes(out, self.name);
        self.content.write(out);
        self.content.extras.put_fields(out);
        end_fields(out);
        match self.plan.times {
            Times::Every(every) => put_numbers(out, EVERY, &[every.millis()]),
            Times::Cron { expression, zone } => {
                put_field(out, CRON, expression);
                put_field(out, ZONE, zone);
            }
        }
        let instant = |out: &mut Vec<u8>, field, instant: Option<Timestamp>| {
            if let Some(instant) = instant {
                put_numbers(out, field, &[instant.millis()]);
            }
        };
        instant(out, FROM, self.plan.from);
        instant(out, UNTIL, self.plan.until);
        if let Some(most) = self.plan.most {
            put_numbers(out, MOST, &[u64::from(most)]);
        }
        match self.overlap {
            Overlap::Skip => {}
            Overlap::After => put_numbers(out, OVERLAP, &[AFTER]),
            Overlap::Allow => put_numbers(out, OVERLAP, &[ALLOW]),
        }
        let history = &self.history;
        instant(out, NEXT, history.next);
        if let Some((at, outcome)) = history.last {
            put_numbers(out, LAST, &[at.millis(), u64::from(outcome.code())]);
        }
        let counts = [u64::from(history.counted), history.runs, history.skipped];
        if counts != [0; 3] {
            put_numbers(out, COUNTS, &counts);
        }
        end_fields(out);
    }

    pub fn read(reader: &mut Reader<'a>) -> Result<Self, Damaged> {
        let name = reader.bytes()?;
        let mut content = Content::read(reader)?;
        read_fields(reader, |field| content.extras.take(field))?;
        let (mut every, mut expression, mut zone) = (None, None, None);
        let (mut from, mut until, mut most) = (None, None, None);
        let mut overlap = Overlap::Skip;
        let mut history = History::default();
        read_fields(reader, |field| {
            match field.number {
                EVERY => every = Some(field.read(read_span)?),
                CRON => expression = Some(field.bytes()),
                ZONE => zone = Some(field.bytes()),
                FROM => from = Some(field.read(read_instant)?),
                UNTIL => until = Some(field.read(read_instant)?),
                MOST => {
                    let read = |reader: &mut Reader<'_>| reader.number_to(u64::from(u32::MAX));
                    most = Some(field.read(read)? as u32);
                }
                OVERLAP => {
                    overlap = match field.read(Reader::number)? {
                        AFTER => Overlap::After,
                        ALLOW => Overlap::Allow,
                        _ => return Err(Damaged("an unknown overlap of runs")),
                    };
                }
                NEXT => history.next = Some(field.read(read_instant)?),
                LAST => {
                    let read = |reader: &mut Reader<'_>| {
                        Ok((read_instant(reader)?, RunOutcome::read(reader)?))
                    };
                    history.last = Some(field.read(read)?);
                }
                COUNTS => {
                    let read = |reader: &mut Reader<'_>| {
                        let counted = reader.number_to(u64::from(u32::MAX))? as u32;
                        Ok((counted, reader.number()?, reader.number()?))
                    };
                    (history.counted, history.runs, history.skipped) = field.read(read)?;
                }
                _ => return field.pass_over(),
            }
            Ok(())
        })?;
        let times = match (every, expression, zone) {
            (Some(every), None, None) if every != Span::ZERO => Times::Every(every),
            (None, Some(expression), Some(zone))
                if (1..=MAX_CRON_BYTES).contains(&expression.len())
                    && (1..=MAX_ZONE_BYTES).contains(&zone.len()) =>
            {
                Times::Cron { expression, zone }
            }
            _ => return Err(Damaged("a schedule without times")),
        };
        let longest = match overlap {
            Overlap::Allow => MAX_NAME_BYTES_ALLOW,
            Overlap::Skip | Overlap::After => MAX_NAME_BYTES,
        };
        if !(1..=longest).contains(&name.len()) {
            return Err(Damaged("the name of a schedule of a length it cannot have"));
        }
        let expiry = content.extras.expiry.map(|expiry| expiry.at.millis());
        if content.enqueued != Timestamp::ZERO
            || content.extras.scheduled != Timestamp::ZERO
            || expiry.is_some_and(|ms| ms > MAX_SPAN_MS)
            || history.next == Some(Timestamp::ZERO)
        {
            return Err(Damaged("a schedule that cannot be so"));
        }
        Ok(Self {
            name,
            plan: Plan {
                times,
                from,
                until,
                most,
            },
            overlap,
            content,
            history,
        })
    }
}
