//! What errors of the server say of an answer.

use redis::RedisError;

use crate::handler::answer::Answer;

/// Whether asking again cannot help: the key is no queue any more, or the server does not
/// understand. A server that does not know the command may have been started without the module,
/// and everything else (READONLY, LOADING, NOAUTH …) passes.
pub(super) fn is_final(error: &RedisError) -> bool {
    match error.code() {
        Some("WRONGTYPE") => true,
        Some("ERR") => !error
            .detail()
            .is_some_and(|detail| detail.contains("unknown command")),
        _ => false,
    }
}

/// Whether the server's module is older than the reasons of retries, as far as its refusal of this
/// answer tells. The next time it is sent without.
pub(super) fn is_too_old(error: &RedisError, answer: &Answer) -> bool {
    matches!(answer, Answer::Retry(retry) if !retry.reason.is_empty())
        && error.code() == Some("ERR")
        && error
            .detail()
            .is_some_and(|detail| detail.contains("syntax error"))
}

/// Whether the server refuses the command as such: its module does not know it, or the user may not
/// send it.
pub(super) fn is_refused(error: &RedisError) -> bool {
    matches!(error.code(), Some("ERR" | "NOPERM"))
}

/// Whether the server has the module, but an older one.
pub(super) fn is_unknown_command(error: &RedisError) -> bool {
    error.code() == Some("ERR")
        && error
            .detail()
            .is_some_and(|detail| detail.contains("unknown command"))
}
