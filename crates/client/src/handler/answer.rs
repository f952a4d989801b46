//! What is sent to the server about a delivery.

use std::time::Duration;

use crate::millis::{millis, LONGEST};

/// What is sent to the server about a delivery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    Success(Option<Duration>),
    Retry(Retry),
    Error(Box<str>),
    Release,
}

/// A verdict by which the message comes again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Retry {
    pub(crate) pause: Pause,
    /// What went wrong; empty if nobody said.
    pub(crate) reason: Box<str>,
    /// The worker's own limit of attempts is reached: the message is dead unless it, or its
    /// queue, has a limit.
    pub(crate) last: bool,
}

impl From<Pause> for Retry {
    fn from(pause: Pause) -> Self {
        Self {
            pause,
            reason: "".into(),
            last: false,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pause {
    None,
    For(Duration),
    Exponential,
}

impl Answer {
    /// Adds the verdict's words to `MQ.DONE queue id token`. A server that is older than the
    /// reasons of retries does not get them.
    pub(crate) fn write(&self, command: &mut redis::Cmd, retries_have_reasons: bool) {
        let backoff = |command: &mut redis::Cmd, pause: Duration| {
            command.arg("BACKOFF").arg(millis(pause.min(LONGEST)));
        };
        match self {
            Answer::Success(None) => {}
            Answer::Success(Some(window)) => backoff(command.arg("SUCCESS"), *window),
            Answer::Retry(retry) => {
                command.arg("RETRY");
                match retry.pause {
                    Pause::None => {}
                    Pause::For(pause) => backoff(command, pause),
                    Pause::Exponential => {
                        command.arg("BACKOFF").arg("EXP");
                    }
                }
                if retries_have_reasons && !retry.reason.is_empty() {
                    command.arg("REASON").arg(cut(&retry.reason));
                }
            }
            Answer::Error(reason) => {
                command.arg("ERROR").arg("REASON").arg(cut(reason));
            }
            Answer::Release => {
                command.arg("RELEASE");
            }
        }
    }
}

/// The longest reason that the server takes, in bytes.
pub(crate) const LONGEST_REASON: usize = 1024;

/// `text`, cut between two characters to what the server takes.
fn cut(text: &str) -> &str {
    if text.len() <= LONGEST_REASON {
        return text;
    }
    let end = (0..=LONGEST_REASON)
        .rev()
        .find(|end| text.is_char_boundary(*end))
        .unwrap_or(0);
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_support::words;

    fn sent(answer: Answer) -> Vec<String> {
        let mut command = redis::Cmd::new();
        answer.write(&mut command, true);
        words(&command)
    }

    fn retry(pause: Pause) -> Answer {
        Answer::Retry(pause.into())
    }

    #[test]
    fn every_answer_has_its_words() {
        assert!(sent(Answer::Success(None)).is_empty());
        let window = Answer::Success(Some(Duration::from_secs(2)));
        assert_eq!(sent(window), ["SUCCESS", "BACKOFF", "2000"]);
        assert_eq!(sent(retry(Pause::None)), ["RETRY"]);
        let later = retry(Pause::For(Duration::from_micros(1)));
        assert_eq!(sent(later), ["RETRY", "BACKOFF", "1"]);
        assert_eq!(sent(retry(Pause::Exponential)), ["RETRY", "BACKOFF", "EXP"]);
        assert_eq!(
            sent(Answer::Error("why not".into())),
            ["ERROR", "REASON", "why not"]
        );
        assert_eq!(sent(Answer::Release), ["RELEASE"]);
    }

    #[test]
    fn a_pause_beyond_the_contract_is_its_longest() {
        let later = retry(Pause::For(Duration::MAX));
        assert_eq!(sent(later), ["RETRY", "BACKOFF", "315360000000"]);
    }

    #[test]
    fn a_long_reason_is_cut_between_characters() {
        let reason = format!("a{}", "é".repeat(1_000));
        let sent = &sent(Answer::Error(reason.into()))[2];
        assert_eq!(sent.len(), 1_023);
        assert!(sent.ends_with('é'));
    }

    #[test]
    fn a_retry_tells_its_reason_to_servers_that_take_it() {
        let answer = Answer::Retry(Retry {
            reason: "down".into(),
            ..Pause::Exponential.into()
        });
        let words = ["RETRY", "BACKOFF", "EXP", "REASON", "down"];
        assert_eq!(sent(answer.clone()), words);
        let mut older = redis::Cmd::new();
        answer.write(&mut older, false);
        assert_eq!(crate::test_support::words(&older), words[..3]);
    }
}
