//! Why a command was refused, and the one place where that becomes the text of a reply.

use std::fmt;

use redis_mq_core::{ApplyError, BatchRefused, Full};

/// The error of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// The key holds a value of another type.
    WrongType,
    /// This server is a replica.
    ReadOnly,
    /// The rights of the user were taken away while it waited.
    NoPermission,
    /// The queue has left the place at which the client waited.
    Unblocked,
    /// The token is not that of the message's newest, unfinished delivery.
    Stale,
    /// An option is unknown, given twice, without its value, or does not go with another one.
    Syntax,
    /// A number is not one or out of range.
    OutOfRange {
        /// The option or the argument, as the user knows it.
        what: &'static str,
        /// The smallest number allowed.
        min: u64,
        /// The largest number allowed.
        max: u64,
    },
    /// A string has a length that is not allowed.
    Length {
        /// The option or the argument, as the user knows it.
        what: &'static str,
        /// The smallest number of bytes.
        min: usize,
        /// The largest number of bytes.
        max: usize,
    },
    /// A cron expression is none.
    BadCron,
    /// A cron expression matches at no time soon.
    NoMatch,
    /// There is no time zone of that name.
    #[cfg_attr(
        not(feature = "timezones"),
        allow(dead_code, reason = "it has UTC alone")
    )]
    UnknownZone,
    /// This build has no database of time zones.
    #[cfg_attr(feature = "timezones", allow(dead_code, reason = "it has one"))]
    NoZones,
    /// A queue has as many schedules as it may have.
    TooManySchedules,
    /// A limit of the queue does not let the message in.
    Full(Full),
    /// No follow-up waits under the id that messages should join.
    NothingWaits,
    /// A message would expire before it is ready.
    ExpiresBeforeStart,
    /// A burst was given, and there is no rate that it is of.
    BurstWithoutRate,
    /// There is no message of the status to go on behind.
    NothingToGoOnAfter,
    /// The next message of the status is too far away in the schedule.
    TooFar,
    /// A cursor was given that this queue has not given since it was loaded.
    ForeignCursor,
    /// The command is not for clients.
    ReplicationOnly,
    /// This server's queue is not the one that its primary, or the author of its append-only file, had.
    Diverged(&'static str),
    /// A step at the queue was given up half way, and nobody knows what it left.
    OutOfService,
    /// A fault of the module, which is in the log.
    Internal,
}

/// A syntax error, and where the reading stood when it was found. The argument is told by its place: no
/// error repeats what a user sent.
pub struct SyntaxError {
    near: Option<usize>,
}

impl SyntaxError {
    /// An error near the argument that was read last, given by its index in the command; at the end of
    /// the arguments without one.
    pub fn near(argument: Option<usize>) -> SyntaxError {
        SyntaxError { near: argument }
    }
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.near {
            Some(index) => write!(f, "{} near argument {index}", Error::Syntax),
            None => write!(f, "{} at the end of the arguments", Error::Syntax),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Error::WrongType => {
                f.write_str("WRONGTYPE Operation against a key holding the wrong kind of value")
            }
            Error::ReadOnly => f.write_str("READONLY You can't write against a read only replica."),
            Error::NoPermission => {
                f.write_str("NOPERM this user has lost the right to this command or this queue")
            }
            Error::Unblocked => {
                f.write_str("UNBLOCKED the queue was removed, replaced or has moved, ask again")
            }
            Error::Stale => f.write_str(
                "STALE this delivery is over: it has its verdict, or there is a newer one",
            ),
            Error::Syntax => f.write_str("ERR syntax error"),
            Error::OutOfRange { what, min, max } => {
                write!(f, "ERR {what} must be an integer from {min} to {max}")
            }
            Error::Length { what, min, max } => {
                write!(f, "ERR {what} must be {min} to {max} bytes")
            }
            Error::Full(Full::Length) => {
                f.write_str("FULL the queue has as many messages as its LENGTH allows")
            }
            Error::Full(Full::Bytes) => {
                f.write_str("FULL the queue takes as much memory as its BYTES allow")
            }
            Error::Full(Full::GroupLength) => {
                f.write_str("FULL the group has as many messages as its LENGTH allows")
            }
            Error::NothingWaits => f.write_str("ERR no follow-up waits under the id to JOIN"),
            Error::BadCron => {
                f.write_str("ERR CRON must be five fields, or six with seconds first")
            }
            Error::NoMatch => f.write_str("ERR CRON matches no time in the next ten years"),
            Error::UnknownZone => f.write_str("ERR TZ is no time zone that this server knows"),
            Error::NoZones => f.write_str("ERR TZ can only be UTC: this build has no time zones"),
            Error::TooManySchedules => {
                f.write_str("ERR the queue has as many schedules as mq.max-schedules allows")
            }
            Error::ExpiresBeforeStart => f.write_str("ERR TTL must be longer than the delay"),
            Error::BurstWithoutRate => f.write_str("ERR BURST needs a RATE"),
            Error::NothingToGoOnAfter => f.write_str("ERR no such message to go on after"),
            Error::TooFar => f.write_str(
                "ERR too many messages of another status come before the next one, use MQ.SCAN",
            ),
            Error::ForeignCursor => f.write_str("ERR the cursor is not of this queue"),
            Error::ReplicationOnly => {
                f.write_str("ERR this command is for replication and the append-only file only")
            }
            Error::Diverged(what) => write!(f, "ERR replication has diverged: {what}"),
            Error::OutOfService => f.write_str(
                "ERR the queue is out of service after an internal error: see the server's log",
            ),
            Error::Internal => f.write_str("ERR internal error"),
        }
    }
}

impl std::error::Error for Error {}

impl From<BatchRefused> for Error {
    fn from(refused: BatchRefused) -> Error {
        match refused {
            BatchRefused::Full(full) => Error::Full(full),
            BatchRefused::NothingWaits => Error::NothingWaits,
        }
    }
}

impl From<ApplyError> for Error {
    fn from(error: ApplyError) -> Error {
        match error {
            ApplyError::Damaged(damaged) => Error::Diverged(damaged.0),
            ApplyError::Diverged(what) => Error::Diverged(what),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_is_one_line_that_begins_with_its_code() {
        let errors = [
            Error::WrongType,
            Error::ReadOnly,
            Error::NoPermission,
            Error::Unblocked,
            Error::Stale,
            Error::Syntax,
            Error::OutOfRange {
                what: "DELAY",
                min: 0,
                max: 9,
            },
            Error::Length {
                what: "id",
                min: 1,
                max: 512,
            },
            Error::Full(Full::Length),
            Error::Full(Full::Bytes),
            Error::Full(Full::GroupLength),
            Error::BadCron,
            Error::NoMatch,
            Error::UnknownZone,
            Error::NoZones,
            Error::TooManySchedules,
            Error::ExpiresBeforeStart,
            Error::BurstWithoutRate,
            Error::NothingToGoOnAfter,
            Error::TooFar,
            Error::ForeignCursor,
            Error::ReplicationOnly,
            Error::Diverged("a message is not there"),
            Error::OutOfService,
            Error::Internal,
        ];
        for error in errors {
            let text = error.to_string();
            let code = text.split(' ').next().unwrap();
            assert!(
                code.len() > 2 && code.bytes().all(|b| b.is_ascii_uppercase()),
                "{text}"
            );
            assert!(text.bytes().all(|b| (b' '..=b'~').contains(&b)), "{text}");
        }
    }

    #[test]
    fn an_error_of_a_number_or_a_length_names_the_option() {
        let delay = Error::OutOfRange {
            what: "DELAY",
            min: 0,
            max: 9,
        };
        assert_eq!(
            delay.to_string(),
            "ERR DELAY must be an integer from 0 to 9"
        );
        let id = Error::Length {
            what: "id",
            min: 1,
            max: 512,
        };
        assert_eq!(id.to_string(), "ERR id must be 1 to 512 bytes");
    }
}
