//! Errors, one enum per layer.

use redis::RedisError;

/// An error from a third party: a codec's or a handler's own.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// A payload could not be written or read.
#[derive(Debug, thiserror::Error)]
#[error("{source}")]
pub struct CodecError {
    #[source]
    source: BoxError,
    unknown_variant: bool,
}

impl CodecError {
    /// Wraps the codec's own error.
    pub fn new(error: impl Into<BoxError>) -> Self {
        Self {
            source: error.into(),
            unknown_variant: false,
        }
    }

    /// The payload is a variant of an enum that this program does not know: a newer producer was
    /// deployed first. Such a message is tried again by default, as others may know it, and this
    /// program soon.
    pub fn unknown_variant(error: impl Into<BoxError>) -> Self {
        Self {
            source: error.into(),
            unknown_variant: true,
        }
    }

    /// Whether it is an [unknown variant](Self::unknown_variant).
    pub fn is_unknown_variant(&self) -> bool {
        self.unknown_variant
    }
}

/// What went wrong while producing or asking.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The connection or the server: see [`RedisError::code`] for the server's error code
    /// (`OOM`, `READONLY`, `WRONGTYPE`, `NOPERM` …).
    #[error(transparent)]
    Redis(RedisError),
    /// The message would pass a limit of the queue or of its group, and was not taken: see
    /// [`Queue::set_limits`](crate::Queue::set_limits). The text says which limit it is.
    #[error("{0}")]
    Full(#[source] RedisError),
    /// The value could not be written as a payload. Nothing was sent.
    #[error("encode error: {0}")]
    Encode(#[source] CodecError),
    /// A stored payload is not a value of the expected type.
    #[error("decode error: {0}")]
    Decode(#[source] CodecError),
    /// An option's value is out of the contract's range. Nothing was sent.
    #[error("invalid {option}: {problem}")]
    InvalidOption {
        /// The option, by the name of the method that sets it.
        option: &'static str,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The reply is not one that the command contract knows.
    #[error("unexpected reply to {command}")]
    UnexpectedReply {
        /// The command that was answered.
        command: &'static str,
    },
}

pub(crate) fn unexpected(command: &'static str) -> Error {
    Error::UnexpectedReply { command }
}

pub(crate) fn invalid(option: &'static str, problem: &'static str) -> Error {
    Error::InvalidOption { option, problem }
}

impl From<RedisError> for Error {
    fn from(error: RedisError) -> Self {
        match error.code() {
            Some("FULL") => Error::Full(error),
            _ => Error::Redis(error),
        }
    }
}

/// A worker was described in a way that cannot work.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// A value given to the builder is out of range.
    #[error("invalid {option}: {problem}")]
    InvalidOption {
        /// The builder method that set it.
        option: &'static str,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The worker could not be started.
    #[error(transparent)]
    Start(#[from] StartError),
}

/// A worker could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// Handlers run on the tokio runtime that the worker is started in, and there is none here.
    #[error("a worker has to be started inside a tokio runtime")]
    NoRuntime,
    /// The operating system refused the worker's own thread.
    #[error("cannot start the worker's thread: {0}")]
    Thread(#[source] std::io::Error),
}
