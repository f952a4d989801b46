//! The small types that keep instants, durations, tokens and priorities apart.

/// The longest duration a command may name: ten years, in milliseconds.
pub const MAX_SPAN_MS: u64 = 315_360_000_000;

/// A point in time: Unix milliseconds on the server's clock. Stored in 48 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Timestamp(u64);

impl Timestamp {
    /// How many bits an instant takes.
    pub(crate) const BITS: u32 = 48;
    /// The latest instant that can be stored (in the year 10889).
    pub const MAX: Self = Self((1 << Self::BITS) - 1);
    /// The Unix epoch; stands for "never" where a reply says so.
    pub const ZERO: Self = Self(0);

    /// The instant at `ms` Unix milliseconds; later ones than [`Timestamp::MAX`] become that.
    #[inline]
    pub const fn from_millis(ms: u64) -> Self {
        if ms > Self::MAX.0 {
            Self::MAX
        } else {
            Self(ms)
        }
    }

    /// Unix milliseconds.
    #[inline]
    pub const fn millis(self) -> u64 {
        self.0
    }

    /// The instant `span` later.
    #[inline]
    pub const fn after(self, span: Span) -> Self {
        Self::from_millis(self.0.saturating_add(span.0))
    }

    /// The time from `self` until `later`; none if that is past.
    #[inline]
    pub const fn until(self, later: Self) -> Span {
        Span(later.0.saturating_sub(self.0))
    }
}

/// A duration in whole milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span(u64);

impl Span {
    /// No time at all.
    pub const ZERO: Self = Self(0);
    /// The longest duration a command may name ([`MAX_SPAN_MS`]).
    pub const MAX: Self = Self(MAX_SPAN_MS);

    /// A duration of `ms` milliseconds; longer ones than [`Span::MAX`] become that.
    #[inline]
    pub const fn from_millis(ms: u64) -> Self {
        if ms > MAX_SPAN_MS {
            Self::MAX
        } else {
            Self(ms)
        }
    }

    /// Milliseconds.
    #[inline]
    pub const fn millis(self) -> u64 {
        self.0
    }
}

/// One reading of the server's clock, taken once per command; up to the year 4253.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Now {
    us: u64,
}

impl Now {
    /// The reading at `us` Unix microseconds.
    #[inline]
    pub const fn from_micros(us: u64) -> Self {
        if us > Token::MAX.0 {
            Self { us: Token::MAX.0 }
        } else {
            Self { us }
        }
    }

    /// Unix microseconds, the unit tokens are made from.
    #[inline]
    pub const fn micros(self) -> u64 {
        self.us
    }

    /// The instant that deadlines are compared with.
    #[inline]
    pub const fn instant(self) -> Timestamp {
        Timestamp::from_millis(self.us / 1000)
    }
}

/// Names one delivery; no other delivery of the queue ever has the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Token(u64);

impl Token {
    /// How many bits a token takes. It is Unix microseconds, or a little more.
    pub(crate) const BITS: u32 = 56;
    /// The highest token that can be stored.
    pub(crate) const MAX: Self = Self((1 << Self::BITS) - 1);

    /// The token written as `value`.
    pub const fn new(value: u64) -> Self {
        Self(value)
    }

    /// The integer that a consumer sees.
    pub const fn value(self) -> u64 {
        self.0
    }
}

/// Where in the order a message stands: 0 is first, 9 last, 5 the default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Priority(u8);

impl Priority {
    /// How many priorities there are.
    pub const LEVELS: usize = 10;

    /// The priority `level`, if there is such a one.
    pub const fn new(level: u8) -> Option<Self> {
        if (level as usize) < Self::LEVELS {
            Some(Self(level))
        } else {
            None
        }
    }

    /// 0 to 9.
    #[inline]
    pub const fn level(self) -> u8 {
        self.0
    }
}

impl Default for Priority {
    fn default() -> Self {
        Self(5)
    }
}

/// What a queue tells of a message at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// Ready for a consumer.
    Queued,
    /// Waits for its time: an initial delay, or the pause before a retry.
    QueuedWithBackoff,
    /// With a consumer.
    Locked,
    /// With a consumer, and a newer copy waits to run after it.
    LockedWithRequeue,
    /// Finished; its id stays taken until the dedupe window ends.
    DoneWithBackoff,
    /// Finished, and a newer copy runs when the dedupe window ends.
    DoneWithRequeue,
    /// Finished and its window ended, not swept yet; the id is free again.
    DoneAwaitingGc,
    /// Gave up: failed, or out of attempts. The id is free again.
    Dead,
    /// Follows a batch, and waits until all messages of it have ended.
    Waiting,
}

impl Status {
    /// Every status, in the order of the contract.
    pub const ALL: [Self; 9] = [
        Self::Queued,
        Self::QueuedWithBackoff,
        Self::Locked,
        Self::LockedWithRequeue,
        Self::DoneWithBackoff,
        Self::DoneWithRequeue,
        Self::DoneAwaitingGc,
        Self::Dead,
        Self::Waiting,
    ];

    /// The word that replies use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::QueuedWithBackoff => "queued-with-backoff",
            Self::Locked => "locked",
            Self::LockedWithRequeue => "locked-with-requeue",
            Self::DoneWithBackoff => "done-with-backoff",
            Self::DoneWithRequeue => "done-with-requeue",
            Self::DoneAwaitingGc => "done-awaiting-gc",
            Self::Dead => "dead",
            Self::Waiting => "waiting",
        }
    }
}

/// The settings a primary decides by. A replica needs none: effects carry what was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The lock of a delivery whose consumer and message name none.
    pub lock: Span,
    /// Factor of [`exp_backoff`](crate::exp_backoff).
    pub backoff_factor: Span,
    /// The longest pause [`exp_backoff`](crate::exp_backoff) may give.
    pub backoff_max: Span,
    /// How many dead letters are kept; beyond it the oldest goes.
    pub max_dead: u32,
    /// How long a result is kept whose consumer and message do not say.
    pub retain: Span,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            lock: Span::from_millis(3_600_000),
            backoff_factor: Span::from_millis(2200),
            backoff_max: Span::from_millis(86_400_000),
            max_dead: 10_000,
            retain: Span::from_millis(60_000),
        }
    }
}
