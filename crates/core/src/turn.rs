//! One command's turn at a queue, and what replicas get of it.
//!
//! In front of a turn's effects stands the *frame*: the moment of the command, the seed of the ids
//! made in it, and the default lock. Applying effects sets the frame on the replica too. From then
//! on, within the same millisecond, the three simplest steps (a new message added, messages handed
//! over in order, a message finished) follow from the command's own words and the queue's state,
//! frame included. For those the log says [`Replication::Verbatim`].

use crate::calendar::{Calendar, NoCalendar};
use crate::codec::{Damaged, Reader};
use crate::effects::Effect;
use crate::queue::Queue;
use crate::types::{Now, Settings, Span, Timestamp, Token, MAX_SPAN_MS};

/// Memory a log keeps from one turn to the next.
const KEPT_BYTES: usize = 64 * 1024;

/// How many messages time may move on in one turn: about a fifth of a millisecond's work.
const TIME_BUDGET: usize = 1024;

/// One command's turn at a queue: what it may know of the world, and where its effects go.
#[derive(Debug)]
pub struct Turn<'a> {
    pub(crate) now: Now,
    pub(crate) random: u64,
    pub(crate) settings: &'a Settings,
    pub(crate) log: &'a mut Log,
    pub(crate) budget: usize,
    pub(crate) calendar: &'a dyn Calendar,
    /// What the server's clock shows, where it is not the queue's own time.
    pub(crate) clock: Option<Timestamp>,
    /// Whether there is memory for what the queue enqueues by itself.
    pub(crate) runs_wait: bool,
}

impl<'a> Turn<'a> {
    /// A turn at `now` with 64 fresh random bits. The log is emptied.
    #[inline]
    pub fn new(now: Now, random: u64, settings: &'a Settings, log: &'a mut Log) -> Self {
        log.clear();
        Self {
            now,
            random,
            settings,
            log,
            budget: TIME_BUDGET,
            calendar: &NoCalendar,
            clock: None,
            runs_wait: false,
        }
    }

    /// Lets schedules be worked out by `calendar`, and be due by what the server's clock shows: it may
    /// have been set, and the queue's own time never is.
    #[inline]
    pub fn set_clock(&mut self, clock: Timestamp, calendar: &'a dyn Calendar) {
        self.clock = Some(clock);
        self.calendar = calendar;
    }

    /// Lets runs of schedules stay due: there is no memory for them.
    pub fn let_runs_wait(&mut self) {
        self.runs_wait = true;
    }

    /// What the server's clock shows.
    pub(crate) fn clock(&self) -> Timestamp {
        self.clock.unwrap_or(self.now.instant())
    }

    /// Another share of work for what time does.
    pub(crate) fn renew_budget(&mut self) {
        self.budget = TIME_BUDGET;
    }

    /// How long the effects are that the turn has had so far, those aside that are left to the client's own
    /// command.
    #[inline]
    pub fn effects_len(&self) -> usize {
        self.log.bytes.len()
    }

    /// Makes room for effects that are about so long.
    pub(crate) fn expect_effects(&mut self, bytes: usize) {
        self.log.bytes.reserve(HEADER + bytes);
    }

    /// Lets the log spell out every effect: there is no client's command that replicas could run.
    pub fn spell_out(&mut self) {
        self.log.spelled_out = true;
    }
}

/// The effects of one turn.
#[derive(Debug, Default)]
pub struct Log {
    bytes: Vec<u8>,
    verbatim: bool,
    /// The effects must be in `bytes`, because the frame is new or nobody sent a command.
    spelled_out: bool,
}

/// What must be sent to replicas and the append-only file after a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replication<'a> {
    /// Nothing changed.
    Nothing,
    /// The client's command as it came; replicas run it through one of `Queue::replay_*`.
    Verbatim,
    /// These bytes, for [`Queue::apply`].
    Effects(&'a [u8]),
}

impl Log {
    #[inline]
    fn clear(&mut self) {
        self.bytes.clear();
        self.verbatim = false;
        self.spelled_out = false;
    }

    /// Gives back what a large turn has taken.
    #[inline]
    pub fn trim(&mut self) {
        if self.bytes.capacity() > KEPT_BYTES {
            self.bytes = Vec::new();
        }
    }

    /// What the turn changed.
    #[inline]
    pub fn replication(&self) -> Replication<'_> {
        if self.verbatim {
            Replication::Verbatim
        } else if self.bytes.is_empty() {
            Replication::Nothing
        } else {
            Replication::Effects(&self.bytes)
        }
    }
}

/// What replicas know of the moment: see the module's text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Frame {
    pub now_us: u64,
    pub seed: u64,
    /// The number of the next id that the queue makes, modulo 2^32.
    pub next_id: u32,
    pub lock: Span,
}

/// Versions of the effects' encoding, the first byte of every log: the lowest that can say it all.
const EFFECTS_VERSIONS: std::ops::RangeInclusive<u8> = 1..=2;
const FRAME_BYTES: usize = 8 + 8 + 4 + 8;
const HEADER: usize = 1 + FRAME_BYTES;

impl Frame {
    #[inline]
    pub fn instant(&self) -> Timestamp {
        Now::from_micros(self.now_us).instant()
    }

    pub fn bytes(&self) -> [u8; FRAME_BYTES] {
        let mut out = [0; FRAME_BYTES];
        out[..8].copy_from_slice(&self.now_us.to_le_bytes());
        out[8..16].copy_from_slice(&self.seed.to_le_bytes());
        out[16..20].copy_from_slice(&self.next_id.to_le_bytes());
        out[20..].copy_from_slice(&self.lock.millis().to_le_bytes());
        out
    }

    pub fn read(reader: &mut Reader<'_>) -> Result<Self, Damaged> {
        let mut eight = || -> Result<u64, Damaged> {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(reader.take(8)?);
            Ok(u64::from_le_bytes(bytes))
        };
        let (now_us, seed) = (eight()?, eight()?);
        let mut next_id = [0; 4];
        next_id.copy_from_slice(reader.take(4)?);
        let mut lock = [0; 8];
        lock.copy_from_slice(reader.take(8)?);
        let lock = u64::from_le_bytes(lock);
        if now_us > Token::MAX.value() || lock > MAX_SPAN_MS {
            return Err(Damaged("the frame is out of range"));
        }
        let lock = Span::from_millis(lock);
        Ok(Self {
            now_us,
            seed,
            next_id: u32::from_le_bytes(next_id),
            lock,
        })
    }
}

impl Queue {
    /// Makes the frame that of this turn. Called only where something changes, since a frame that
    /// replicas do not get must not be used.
    #[inline]
    pub(crate) fn enter_frame(&mut self, turn: &mut Turn<'_>) {
        let current =
            self.frame.instant() == turn.now.instant() && self.frame.lock == turn.settings.lock;
        // Rates count microseconds.
        let current = current && (self.is_plain() || self.frame.now_us == turn.now.micros());
        if !current {
            let (now_us, seed) = (turn.now.micros(), turn.random);
            let lock = turn.settings.lock;
            self.frame = Frame {
                now_us,
                seed,
                lock,
                ..self.frame
            };
            turn.log.spelled_out = true;
        }
    }

    /// Whether the only change of this turn may be left to replicas to work out. If so, nothing
    /// else may be changed in this turn. Never where there are groups or limits.
    #[inline]
    pub(crate) fn emit_verbatim(&mut self, turn: &mut Turn<'_>) -> bool {
        let log = &mut *turn.log;
        log.verbatim = !log.spelled_out && log.bytes.is_empty() && self.is_plain();
        log.verbatim
    }

    pub(crate) fn emit(&self, turn: &mut Turn<'_>, effect: &Effect<'_>) {
        let out = &mut turn.log.bytes;
        if out.is_empty() {
            out.resize(HEADER, 0);
        }
        out[1..HEADER].copy_from_slice(&self.frame.bytes());
        let version = effect.write(out);
        out[0] = out[0].max(version);
    }
}

/// Reads version and frame in front of effects.
pub(crate) fn read_header(reader: &mut Reader<'_>) -> Result<(u8, Frame), Damaged> {
    let version = reader.byte()?;
    if !EFFECTS_VERSIONS.contains(&version) {
        return Err(Damaged("effects of an unknown version"));
    }
    Ok((version, Frame::read(reader)?))
}
