//! What a message of the old queue is, and what it becomes.

/// A kind of message, as the scripts tell them apart: its place in [`ALL`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Kind(usize);

/// The name in the scripts, the status that it gets if it is imported, and that in words.
const ALL: [(&str, Option<&str>, &str); 14] = [
    ("queued", Some("queued"), "queued"),
    (
        "queued-and-copy",
        Some("queued"),
        "queued, and a copy that runs afterwards",
    ),
    (
        "queued-with-backoff",
        Some("queued-with-backoff"),
        "queued-with-backoff, until the same instant",
    ),
    (
        "queued-with-backoff-and-copy",
        Some("queued-with-backoff"),
        "the same, and a copy that runs afterwards",
    ),
    (
        "done-with-backoff",
        Some("done-with-backoff"),
        "done-with-backoff, its id taken as long",
    ),
    (
        "done-with-requeue",
        Some("done-with-requeue"),
        "done-with-requeue",
    ),
    (
        "requeued",
        Some("queued"),
        "queued: finished, and to run again",
    ),
    ("done-awaiting-gc", None, "nothing: it is finished"),
    ("orphan", None, "nothing: it has no payload"),
    ("locked", None, "stays with its worker"),
    ("locked-with-requeue", None, "stays with its worker"),
    (
        "taken",
        None,
        "stays: the new queue has a message of that id",
    ),
    ("no-id", None, "stays: ids have 1 to 512 bytes"),
    ("later", None, "stays: it came meanwhile"),
];

impl Kind {
    /// The kind that the scripts call so.
    pub fn named(name: &str) -> Option<Self> {
        ALL.iter().position(|(own, ..)| *own == name).map(Self)
    }

    /// The name in the scripts.
    pub fn name(self) -> &'static str {
        ALL[self.0].0
    }

    /// The status that such a message gets, if it is imported.
    pub fn becomes(self) -> Option<&'static str> {
        ALL[self.0].1
    }

    /// What becomes of it, in words.
    pub fn meaning(self) -> &'static str {
        ALL[self.0].2
    }
}
