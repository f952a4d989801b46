//! What few messages have of their own: a mask of what there is, and then only that.

use crate::types::{Span, Timestamp};

use super::Limits;

/// The options of one message, as its allocation holds them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Own<'a> {
    pub limits: Limits,
    /// The timer of its expiry.
    pub timer: Option<u32>,
    /// The number of its group.
    pub group: Option<u32>,
    /// How long its result is kept, if it says so.
    pub retain: Option<Span>,
    /// The number of its batch.
    pub batch: Option<u32>,
    /// The instant that its schedule meant; zero for a message of no schedule.
    pub scheduled: Timestamp,
    /// What the producer sent beside the payload; empty for nothing.
    pub headers: &'a [u8],
}

/// A bit of the mask for each part, in the order of the parts.
const ATTEMPTS: u8 = 1 << 0;
const LOCK: u8 = 1 << 1;
const RETAIN: u8 = 1 << 2;
const TIMER: u8 = 1 << 3;
const GROUP: u8 = 1 << 4;
const BATCH: u8 = 1 << 5;
const HEADERS: u8 = 1 << 6;
const SCHEDULED: u8 = 1 << 7;

/// The mask itself.
const MASK_BYTES: usize = 1;
const ATTEMPTS_BYTES: usize = 4;
const LOCK_BYTES: usize = 5;
const RETAIN_BYTES: usize = 5;
const TIMER_BYTES: usize = 4;
const GROUP_BYTES: usize = 4;
const BATCH_BYTES: usize = 4;
const SCHEDULED_BYTES: usize = 6;
/// Length of the headers, which follow it.
const HEADERS_BYTES: usize = 2;

/// The parts of a fixed size, in their order; the headers come behind all of them.
const FIXED: [(u8, usize); 7] = [
    (ATTEMPTS, ATTEMPTS_BYTES),
    (LOCK, LOCK_BYTES),
    (RETAIN, RETAIN_BYTES),
    (TIMER, TIMER_BYTES),
    (GROUP, GROUP_BYTES),
    (BATCH, BATCH_BYTES),
    (SCHEDULED, SCHEDULED_BYTES),
];

impl<'a> Own<'a> {
    #[inline]
    pub fn is_none(&self) -> bool {
        self.limits == Limits::default()
            && self.retain.is_none()
            && self.timer.is_none()
            && self.group.is_none()
            && self.batch.is_none()
            && self.scheduled == Timestamp::ZERO
            && self.headers.is_empty()
    }

    fn mask(&self) -> u8 {
        let part = |there, bit| if there { bit } else { 0 };
        part(self.limits.attempts != 0, ATTEMPTS)
            | part(self.limits.lock != Span::ZERO, LOCK)
            | part(self.retain.is_some(), RETAIN)
            | part(self.timer.is_some(), TIMER)
            | part(self.group.is_some(), GROUP)
            | part(self.batch.is_some(), BATCH)
            | part(self.scheduled != Timestamp::ZERO, SCHEDULED)
            | part(!self.headers.is_empty(), HEADERS)
    }

    /// Bytes that [`Own::write`] adds.
    pub fn len(&self) -> usize {
        let headers = match self.headers.len() {
            0 => 0,
            length => HEADERS_BYTES + length,
        };
        MASK_BYTES + fixed(self.mask()) + headers
    }

    pub fn write(&self, out: &mut Vec<u8>) {
        let mask = self.mask();
        out.push(mask);
        if mask & ATTEMPTS != 0 {
            out.extend_from_slice(&self.limits.attempts.to_le_bytes());
        }
        if mask & LOCK != 0 {
            out.extend_from_slice(&self.limits.lock.millis().to_le_bytes()[..LOCK_BYTES]);
        }
        if let Some(retain) = self.retain {
            out.extend_from_slice(&retain.millis().to_le_bytes()[..RETAIN_BYTES]);
        }
        if let Some(timer) = self.timer {
            out.extend_from_slice(&timer.to_le_bytes());
        }
        if let Some(group) = self.group {
            out.extend_from_slice(&group.to_le_bytes());
        }
        if let Some(batch) = self.batch {
            out.extend_from_slice(&batch.to_le_bytes());
        }
        if mask & SCHEDULED != 0 {
            out.extend_from_slice(&self.scheduled.millis().to_le_bytes()[..SCHEDULED_BYTES]);
        }
        if mask & HEADERS != 0 {
            debug_assert!(self.headers.len() <= usize::from(u16::MAX));
            out.extend_from_slice(&(self.headers.len() as u16).to_le_bytes());
            out.extend_from_slice(self.headers);
        }
    }
}

/// Bytes of all parts of a fixed size.
fn fixed(mask: u8) -> usize {
    fixed_before(mask, u8::MAX)
}

/// Bytes of the parts of a fixed size that lie before the part `bit`.
fn fixed_before(mask: u8, bit: u8) -> usize {
    let before = FIXED
        .iter()
        .filter(|(part, _)| *part < bit && mask & part != 0);
    before.map(|(_, bytes)| bytes).sum()
}

/// How long the options at the beginning of `body` are.
pub(super) fn length(body: &[u8]) -> usize {
    let mask = body[0];
    let fixed = MASK_BYTES + fixed(mask);
    if mask & HEADERS == 0 {
        return fixed;
    }
    fixed + HEADERS_BYTES + headers_len(body, fixed)
}

/// The options at the beginning of `body`.
pub(super) fn read(body: &[u8]) -> Own<'_> {
    Own {
        limits: limits(body),
        retain: retain(body),
        timer: timer(body),
        group: group(body),
        batch: batch(body),
        scheduled: scheduled(body),
        headers: headers(body),
    }
}

pub(super) fn limits(body: &[u8]) -> Limits {
    let mut limits = Limits::default();
    if let Some(at) = part_at(body, ATTEMPTS) {
        let mut attempts = [0; ATTEMPTS_BYTES];
        attempts.copy_from_slice(&body[at..at + ATTEMPTS_BYTES]);
        limits.attempts = u32::from_le_bytes(attempts);
    }
    if let Some(lock) = span_at(body, LOCK) {
        limits.lock = lock;
    }
    limits
}

pub(super) fn retain(body: &[u8]) -> Option<Span> {
    span_at(body, RETAIN)
}

pub(super) fn timer(body: &[u8]) -> Option<u32> {
    number_at(body, TIMER)
}

pub(super) fn group(body: &[u8]) -> Option<u32> {
    number_at(body, GROUP)
}

fn span_at(body: &[u8], part: u8) -> Option<Span> {
    const BYTES: usize = LOCK_BYTES;
    const _: () = assert!(RETAIN_BYTES == BYTES);
    let at = part_at(body, part)?;
    let mut span = [0; 8];
    span[..BYTES].copy_from_slice(&body[at..at + BYTES]);
    Some(Span::from_millis(u64::from_le_bytes(span)))
}

pub(super) fn batch(body: &[u8]) -> Option<u32> {
    number_at(body, BATCH)
}

pub(super) fn scheduled(body: &[u8]) -> Timestamp {
    let Some(at) = part_at(body, SCHEDULED) else {
        return Timestamp::ZERO;
    };
    let mut ms = [0; 8];
    ms[..SCHEDULED_BYTES].copy_from_slice(&body[at..at + SCHEDULED_BYTES]);
    Timestamp::from_millis(u64::from_le_bytes(ms))
}

fn number_at(body: &[u8], part: u8) -> Option<u32> {
    let at = part_at(body, part)?;
    let mut number = [0; 4];
    number.copy_from_slice(&body[at..at + 4]);
    Some(u32::from_le_bytes(number))
}

pub(super) fn headers(body: &[u8]) -> &[u8] {
    match part_at(body, HEADERS) {
        Some(at) => {
            let length = headers_len(body, at);
            &body[at + HEADERS_BYTES..][..length]
        }
        None => &[],
    }
}

fn headers_len(body: &[u8], at: usize) -> usize {
    usize::from(u16::from_le_bytes([body[at], body[at + 1]]))
}

/// Where the part `bit` begins, if it is there.
fn part_at(body: &[u8], bit: u8) -> Option<usize> {
    let mask = body[0];
    let before = if bit == HEADERS {
        fixed(mask)
    } else {
        fixed_before(mask, bit)
    };
    (mask & bit != 0).then_some(MASK_BYTES + before)
}
