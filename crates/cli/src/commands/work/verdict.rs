//! From a command's end to a verdict.

use std::{os::unix::process::ExitStatusExt as _, process::ExitStatus, time::Duration};

use redis_mq_client::redis::{self, Cmd};

use super::{
    start::{NOT_FOUND, NOT_RUNNABLE},
    taking::Delivery,
    Settings,
};
use crate::duration;

/// EX_DATAERR of sysexits.h: the input is wrong, and will be wrong again.
const DATA_ERROR: i32 = 65;
/// The longest reason that the server takes, in bytes.
const LONGEST_REASON: usize = 1024;

/// The longest result that it takes.
pub const LONGEST_RESULT: usize = 1 << 20;

/// What is to become of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Done.
    Success(Option<Kept>),
    /// Again, after that time, or after one that grows with the attempt.
    Retry {
        reason: Vec<u8>,
        after: Option<Duration>,
    },
    /// Never again.
    Dead { reason: Vec<u8> },
    /// Back, as if it had not been delivered.
    Release,
}

/// A result with what is asked for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    result: Vec<u8>,
    retain: Option<Duration>,
}

/// What a command printed.
#[derive(Debug, Default)]
pub struct Printed {
    /// The last line on standard error that says something.
    pub said: Vec<u8>,
    /// All of standard output, if it is the result; then at least so much that it shows to be too long.
    pub result: Vec<u8>,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// By itself, or by somebody's signal.
    Exited(ExitStatus),
    /// Its time was over.
    TimedOut,
    /// The worker ends.
    Stopped,
    /// It never began, for want of resources.
    NotStarted,
}

/// An exit code for `--dead-on`.
pub fn dead_on(text: &str) -> Result<i32, String> {
    match text.parse::<u8>() {
        Ok(0) => Err("0 is success".into()),
        Ok(NOT_RUNNABLE | NOT_FOUND) => Err("126 and 127 end the worker".into()),
        Ok(code) => Ok(code.into()),
        Err(_) => Err("an exit code is 1 to 255".into()),
    }
}

/// The verdict, and the exit code with which the worker has to end, if it has to.
pub fn of(end: End, printed: Printed, settings: &Settings) -> (Verdict, Option<u8>) {
    let Printed { said, result } = printed;
    let retry = |reason: Vec<u8>| Verdict::Retry {
        reason: cut(reason),
        after: settings.retry_after,
    };
    let because = |fallback: String| match said.is_empty() {
        true => fallback.into_bytes(),
        false => said,
    };
    let status = match end {
        End::TimedOut => return (retry(b"timeout".to_vec()), None),
        End::Stopped => return (Verdict::Release, None),
        End::NotStarted => return (Verdict::Release, Some(NOT_RUNNABLE)),
        End::Exited(status) => status,
    };
    let Some(code) = status.code() else {
        let signal = status.signal().unwrap_or_default();
        return (retry(because(format!("killed by signal {signal}"))), None);
    };
    if code == 0 {
        let retain = settings.retain;
        return match (settings.result, result.len() > LONGEST_RESULT) {
            (false, _) => (Verdict::Success(None), None),
            (true, false) => (Verdict::Success(Some(Kept { result, retain })), None),
            // Who waits for it must not get a part of it, and another try would print it again.
            (true, true) => {
                let reason = b"its result is longer than 1 MiB".to_vec();
                (Verdict::Dead { reason }, None)
            }
        };
    }
    let reason = because(format!("exit code {code}"));
    if let Some(broken) = [NOT_RUNNABLE, NOT_FOUND]
        .into_iter()
        .find(|own| i32::from(*own) == code)
    {
        return (Verdict::Release, Some(broken));
    }
    if code == DATA_ERROR || settings.dead_on.contains(&code) {
        let reason = cut(reason);
        return (Verdict::Dead { reason }, None);
    }
    (retry(reason), None)
}

/// As much of it as the server takes. Text is cut between two characters.
fn cut(mut reason: Vec<u8>) -> Vec<u8> {
    if reason.len() <= LONGEST_REASON {
        return reason;
    }
    let mut end = LONGEST_REASON;
    // The bytes inside a character of UTF-8 all begin with the bits 10, three at most.
    while end > LONGEST_REASON - 4 && reason[end] & 0xc0 == 0x80 {
        end -= 1;
    }
    reason.truncate(end);
    reason
}

impl Verdict {
    /// Its name in the output.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Success(_) => "success",
            Self::Retry { .. } => "retry",
            Self::Dead { .. } => "error",
            Self::Release => "release",
        }
    }

    /// Why.
    pub fn reason(&self) -> Option<&[u8]> {
        match self {
            Self::Retry { reason, .. } | Self::Dead { reason } => Some(reason),
            Self::Success(_) | Self::Release => None,
        }
    }

    /// Instead of a further try: there have been enough.
    pub fn given_up(self) -> Self {
        match self {
            Self::Retry { reason, .. } => Self::Dead {
                reason: cut([&b"no attempts left: "[..], &reason].concat()),
            },
            other => other,
        }
    }

    /// The command that tells the server. Modules of before 0.1 take no reason with a retry.
    pub fn command(&self, queue: &str, delivery: &Delivery, with_reason: bool) -> Cmd {
        let mut command = redis::cmd("MQ.DONE");
        command.arg(queue).arg(&delivery.id).arg(delivery.token);
        match self {
            Self::Success(None) => {}
            Self::Success(Some(Kept { result, retain })) => {
                command.arg("RESULT").arg(result);
                if let Some(retain) = retain {
                    command.arg("RETAIN").arg(duration::millis(*retain));
                }
            }
            Self::Release => {
                command.arg("RELEASE");
            }
            Self::Dead { reason } => {
                command.arg("ERROR").arg("REASON").arg(reason);
            }
            Self::Retry { reason, after } => {
                command.arg("RETRY");
                if with_reason {
                    command.arg("REASON").arg(reason);
                }
                command.arg("BACKOFF");
                match after {
                    None => command.arg("EXP"),
                    Some(after) => command.arg(duration::millis(*after)),
                };
            }
        }
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser as _;

    fn judged(end: End, said: &str, options: &[&str]) -> (Verdict, Option<u8>) {
        let words = [&["redis-mq", "work", "q"], options, &["--", "true"]].concat();
        let crate::args::Command::Work(args) = crate::args::Cli::parse_from(words).command else {
            panic!("it is `work`");
        };
        let printed = Printed {
            said: said.into(),
            result: b"7\n".to_vec(),
        };
        of(end, printed, &args.settings)
    }

    fn exit(code: i32) -> End {
        End::Exited(ExitStatus::from_raw(code << 8))
    }

    fn retry(reason: &str) -> (Verdict, Option<u8>) {
        let reason = reason.into();
        (
            Verdict::Retry {
                reason,
                after: None,
            },
            None,
        )
    }

    fn dead(reason: &str) -> (Verdict, Option<u8>) {
        (
            Verdict::Dead {
                reason: reason.into(),
            },
            None,
        )
    }

    #[test]
    fn every_end_has_its_verdict() {
        let success = Verdict::Success(None);
        assert_eq!(judged(exit(0), "noise", &[]), (success, None));
        let (result, retain) = (b"7\n".to_vec(), Some(Duration::from_secs(5)));
        let success = Verdict::Success(Some(Kept { result, retain }));
        let asked = ["--result", "--retain", "5s"];
        assert_eq!(judged(exit(0), "noise", &asked), (success, None));
        assert_eq!(judged(exit(65), "bad address", &[]), dead("bad address"));
        assert_eq!(judged(exit(65), "", &[]), dead("exit code 65"));
        assert_eq!(
            judged(exit(9), "", &["--dead-on", "8,9"]),
            dead("exit code 9")
        );
        assert_eq!(judged(exit(75), "later", &[]), retry("later"));
        assert_eq!(judged(exit(1), "", &[]), retry("exit code 1"));
        let killed = End::Exited(ExitStatus::from_raw(9));
        assert_eq!(judged(killed, "", &[]), retry("killed by signal 9"));
        assert_eq!(judged(End::TimedOut, "noise", &[]), retry("timeout"));
        assert_eq!(judged(exit(127), "", &[]), (Verdict::Release, Some(127)));
        assert_eq!(judged(exit(126), "", &[]), (Verdict::Release, Some(126)));
        assert_eq!(
            judged(End::NotStarted, "", &[]),
            (Verdict::Release, Some(126))
        );
        assert_eq!(judged(End::Stopped, "", &[]), (Verdict::Release, None));
    }

    #[test]
    fn codes_that_mean_something_else_cannot_mean_dead() {
        for wrong in ["0", "126", "127", "256", "x"] {
            assert!(dead_on(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn long_reasons_are_cut_between_characters() {
        let reason = format!("a{}", "é".repeat(1_000)).into_bytes();
        let verdict = Verdict::Retry {
            reason,
            after: None,
        }
        .given_up();
        let text = std::str::from_utf8(verdict.reason().unwrap()).unwrap();
        assert!(
            text.starts_with("no attempts left: aé") && text.len() > 1_020,
            "{text}"
        );
        assert_eq!(cut(vec![0x80; 2_000]).len(), LONGEST_REASON - 4);
    }
}
