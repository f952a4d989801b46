//! Where the schedules of a queue lie, and which is due next.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::copies::WaitingCopy;
use crate::effects::Content;
use crate::enqueue::Start;
use crate::expiry::Expiry;
use crate::queue::Queue;
use crate::relocate::Relocate;
use crate::schedules::form::Definition;
use crate::schedules::plan::{History, Overlap, Plan, Times};
use crate::types::{Span, Timestamp};

/// One schedule.
#[derive(Debug)]
pub(crate) struct Entry {
    pub name: Arc<[u8]>,
    times: OwnedTimes,
    from: Option<Timestamp>,
    until: Option<Timestamp>,
    most: Option<u32>,
    pub overlap: Overlap,
    /// What each run is.
    template: WaitingCopy,
    pub history: History,
}

#[derive(Debug)]
enum OwnedTimes {
    Every(Span),
    Cron {
        expression: Box<[u8]>,
        zone: Box<[u8]>,
    },
}

impl Entry {
    pub fn new(definition: &Definition<'_>) -> Self {
        let plan = &definition.plan;
        Self {
            name: definition.name.into(),
            times: match plan.times {
                Times::Every(every) => OwnedTimes::Every(every),
                Times::Cron { expression, zone } => OwnedTimes::Cron {
                    expression: expression.into(),
                    zone: zone.into(),
                },
            },
            from: plan.from,
            until: plan.until,
            most: plan.most,
            overlap: definition.overlap,
            template: WaitingCopy::new(&definition.content, Start::Default),
            history: definition.history,
        }
    }

    pub fn plan(&self) -> Plan<'_> {
        Plan {
            times: match &self.times {
                OwnedTimes::Every(every) => Times::Every(*every),
                OwnedTimes::Cron { expression, zone } => Times::Cron { expression, zone },
            },
            from: self.from,
            until: self.until,
            most: self.most,
        }
    }

    pub fn definition(&self) -> Definition<'_> {
        Definition {
            name: &self.name,
            plan: self.plan(),
            overlap: self.overlap,
            content: Content::of(&self.template),
            history: self.history,
        }
    }

    /// The content of the run that was meant for `scheduled` and is enqueued at `now`.
    pub fn content(&self, scheduled: Timestamp, now: Timestamp) -> Content<'_> {
        let mut content = Content::of(&self.template);
        content.enqueued = now;
        content.extras.scheduled = scheduled;
        content.extras.expiry = content.extras.expiry.map(|expiry| Expiry {
            at: now.after(Timestamp::ZERO.until(expiry.at)),
            ..expiry
        });
        content
    }

    /// The id of the run that was meant for `scheduled`.
    pub fn id_of_run(&self, scheduled: Timestamp) -> Vec<u8> {
        let mut id = self.name.to_vec();
        if self.overlap == Overlap::Allow {
            id.push(b'@');
            id.extend_from_slice(scheduled.millis().to_string().as_bytes());
        }
        id
    }

    fn bytes(&self) -> usize {
        let times = match &self.times {
            OwnedTimes::Every(_) => 0,
            OwnedTimes::Cron { expression, zone } => expression.len() + zone.len(),
        };
        size_of::<Self>() + ARC_BYTES + self.name.len() + times + self.template.bytes()
    }
}

/// What the count of a shared name takes.
const ARC_BYTES: usize = 16;
/// What the trees and the list of places take for each schedule, about.
const PLACE_BYTES: usize = 80;
/// Places that one step of a walk over the memory looks at.
const STEP: usize = 32;

/// The schedules of a queue. Their number is bounded by a setting, in thousands.
#[derive(Debug, Default)]
pub(crate) struct Schedules {
    /// A schedule keeps its place for as long as it is there: cursors go by places.
    places: Vec<Option<Box<Entry>>>,
    vacant: Vec<u32>,
    names: BTreeMap<Arc<[u8]>, u32>,
    /// Those that have a next run, by its instant; of one instant, by name.
    due: BTreeSet<(Timestamp, Arc<[u8]>)>,
    entry_bytes: usize,
}

impl Schedules {
    pub fn len(&self) -> usize {
        self.names.len()
    }

    pub fn find(&self, name: &[u8]) -> Option<u32> {
        self.names.get(name).copied()
    }

    /// How many places there are, vacant ones included.
    pub fn end(&self) -> u32 {
        self.places.len() as u32 // a place takes memory, so there are fewer than 2^32
    }

    pub fn at(&self, place: u32) -> Option<&Entry> {
        self.places.get(place as usize)?.as_deref()
    }

    /// The first run to come, and whose it is.
    pub fn next(&self) -> Option<(Timestamp, u32)> {
        let (due, name) = self.due.first()?;
        Some((*due, self.find(name)?))
    }

    pub fn next_due(&self) -> Option<Timestamp> {
        self.due.first().map(|(due, _)| *due)
    }

    /// Makes the schedule, or puts it in the place of the one of its name.
    pub fn set(&mut self, entry: Entry) {
        self.entry_bytes += entry.bytes();
        let place = match self.find(&entry.name) {
            Some(place) => {
                self.entry_bytes -= self.lend(place).map_or(0, |before| before.bytes());
                place
            }
            None => self.vacant.pop().unwrap_or_else(|| {
                self.places.push(None);
                self.end() - 1
            }),
        };
        self.names.insert(Arc::clone(&entry.name), place);
        self.give_back(place, Box::new(entry));
    }

    /// Takes a schedule out for a step with it; it keeps its place, counts in the memory, and must be given
    /// back.
    pub fn lend(&mut self, place: u32) -> Option<Box<Entry>> {
        let entry = self.places.get_mut(place as usize)?.take()?;
        if let Some(next) = entry.history.next {
            self.due.remove(&(next, Arc::clone(&entry.name)));
        }
        Some(entry)
    }

    /// Puts a schedule where it was.
    pub fn give_back(&mut self, place: u32, entry: Box<Entry>) {
        if let Some(next) = entry.history.next {
            self.due.insert((next, Arc::clone(&entry.name)));
        }
        self.places[place as usize] = Some(entry);
    }

    pub fn remove(&mut self, place: u32) {
        if let Some(entry) = self.lend(place) {
            self.entry_bytes -= entry.bytes();
            self.names.remove(&entry.name);
            self.vacant.push(place);
        }
    }

    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.entry_bytes + self.places.len() * PLACE_BYTES
    }

    /// All, by name.
    pub fn by_name(&self) -> impl Iterator<Item = &Entry> {
        self.names.values().filter_map(|place| self.at(*place))
    }

    /// Lets `mover` move the memory of some; false if they were the last.
    pub fn relocate(&mut self, step: usize, mover: &mut impl Relocate) -> bool {
        let places = self.places.iter_mut().skip(step * STEP);
        for entry in places.take(STEP).flatten() {
            mover.value(entry);
            entry.template.relocate(mover);
            if let OwnedTimes::Cron { expression, zone } = &mut entry.times {
                mover.slice(expression);
                mover.slice(zone);
            }
        }
        (step + 1) * STEP < self.places.len()
    }

    /// Whether the parts agree.
    pub fn check(&self) -> Result<(), String> {
        let entries: Vec<_> = self.places.iter().flatten().collect();
        let places = entries.len() + self.vacant.len();
        if places != self.places.len() || entries.len() != self.len() || entries.is_empty() {
            return Err("places of schedules are lost, or kept for nothing".to_owned());
        }
        let next = |entry: &Entry| Some((entry.history.next?, Arc::clone(&entry.name)));
        let to_come = entries.iter().filter_map(|entry| next(entry));
        if to_come.collect::<BTreeSet<_>>() != self.due {
            return Err("runs to come are not those of the schedules".to_owned());
        }
        for (name, place) in &self.names {
            if self.at(*place).map(|entry| &entry.name) != Some(name) {
                return Err(format!("a schedule is not at its place {place}"));
            }
        }
        let bytes: usize = entries.iter().map(|entry| entry.bytes()).sum();
        if bytes != self.entry_bytes {
            return Err(format!(
                "bytes of schedules: {}, not {bytes}",
                self.entry_bytes
            ));
        }
        Ok(())
    }
}

impl Queue {
    /// How many schedules the queue has.
    pub fn schedules_len(&self) -> usize {
        self.schedules
            .as_ref()
            .map_or(0, |schedules| schedules.len())
    }

    /// When the next run of a schedule is, by the server's clock.
    #[inline]
    pub fn next_run(&self) -> Option<Timestamp> {
        self.schedules.as_ref()?.next_due()
    }

    pub(crate) fn find_schedule(&self, name: &[u8]) -> Option<u32> {
        self.schedules.as_ref()?.find(name)
    }

    /// The schedules as they are written, by name.
    pub(crate) fn definitions(&self) -> impl Iterator<Item = Definition<'_>> {
        let all = self
            .schedules
            .iter()
            .flat_map(|schedules| schedules.by_name());
        all.map(Entry::definition)
    }

    /// Makes a schedule, or replaces the one of its name.
    pub(crate) fn take_schedule(&mut self, definition: &Definition<'_>) {
        let schedules = self.schedules.get_or_insert_default();
        schedules.set(Entry::new(definition));
    }

    /// Takes a schedule away.
    pub(crate) fn drop_schedule(&mut self, place: u32) {
        self.kinds.scheduled = true;
        if let Some(schedules) = &mut self.schedules {
            schedules.remove(place);
            if schedules.len() == 0 {
                self.schedules = None;
            }
        }
    }
}
