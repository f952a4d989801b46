//! What an operator can set: `CONFIG SET mq.…` (from 7.0 on) and arguments of `loadmodule`.

use crate::parse::{digits, is, ArgList, MAX_DURATION_MS};
use crate::redis::{register_numbers, Args, Ctx, LoadError, NumberSetting};

const TEN_YEARS_MS: i64 = MAX_DURATION_MS as i64;

static LOCK_MS: NumberSetting = NumberSetting::new(c"lock-ms", 3_600_000, 1, TEN_YEARS_MS);
static BACKOFF_FACTOR_MS: NumberSetting =
    NumberSetting::new(c"backoff-factor-ms", 2_200, 1, 86_400_000);
static BACKOFF_MAX_MS: NumberSetting =
    NumberSetting::new(c"backoff-max-ms", 86_400_000, 1, TEN_YEARS_MS);
static MAX_DEAD: NumberSetting = NumberSetting::new(c"max-dead", 10_000, 0, u32::MAX as i64);

static IDLE_MS: NumberSetting = NumberSetting::new(c"idle-ms", 0, 0, TEN_YEARS_MS);
static RETAIN_MS: NumberSetting = NumberSetting::new(c"retain-ms", 60_000, 0, TEN_YEARS_MS);
static MAX_SCHEDULES: NumberSetting = NumberSetting::new(c"max-schedules", 10_000, 0, 1_000_000);

static SETTINGS: [&NumberSetting; 7] = [
    &LOCK_MS,
    &BACKOFF_FACTOR_MS,
    &BACKOFF_MAX_MS,
    &MAX_DEAD,
    &IDLE_MS,
    &RETAIN_MS,
    &MAX_SCHEDULES,
];

/// How long a delivery is locked where neither message nor consumer says so, in milliseconds.
#[inline]
pub fn lock_ms() -> u64 {
    LOCK_MS.value() as u64 // all settings are at least 0
}

/// The factor of the exponential backoff, in milliseconds.
#[inline]
pub fn backoff_factor_ms() -> u64 {
    BACKOFF_FACTOR_MS.value() as u64
}

/// The longest exponential backoff, in milliseconds.
#[inline]
pub fn backoff_max_ms() -> u64 {
    BACKOFF_MAX_MS.value() as u64
}

/// How many dead letters a queue keeps: one more lets go of the oldest. 0 keeps none.
#[inline]
pub fn max_dead() -> u32 {
    MAX_DEAD.value() as u32 // at most 2^32 - 1
}

/// How long a queue stays that holds nothing and has no settings, in milliseconds. 0 lets all stay.
#[inline]
pub fn idle_ms() -> u64 {
    IDLE_MS.value() as u64
}

/// How long a result is kept where neither verdict nor message says so, in milliseconds. 0 keeps none.
#[inline]
pub fn retain_ms() -> u64 {
    RETAIN_MS.value() as u64
}

/// How many schedules a queue may have.
pub fn max_schedules() -> usize {
    MAX_SCHEDULES.value() as usize
}

/// Takes the arguments of `loadmodule`, then offers the settings to the server. What an argument says
/// stands for the default, so a `mq.…` line that `CONFIG REWRITE` wrote wins over it at a restart.
pub fn register(ctx: &Ctx, args: Args<'_>) -> Result<(), LoadError> {
    apply(args)?;
    register_numbers(ctx, &SETTINGS)
}

/// Pairs of a name, with or without the prefix `mq.`, and a number; each name once.
fn apply<'a>(args: impl ArgList<'a>) -> Result<(), LoadError> {
    let mut given = [false; SETTINGS.len()];
    let mut at = 0;
    while let Some(name) = args.at(at) {
        let Some(index) = SETTINGS.iter().position(|setting| names(name, setting)) else {
            let known: Vec<_> = SETTINGS.iter().map(|setting| name_of(setting)).collect();
            return Err(LoadError::new(format!(
                "argument {} of the module is none of {}",
                at + 1,
                known.join(", ")
            )));
        };
        let setting = SETTINGS[index];
        if std::mem::replace(&mut given[index], true) {
            return Err(LoadError::new(format!(
                "{} is given twice",
                name_of(setting)
            )));
        }
        let value = args
            .at(at + 1)
            .and_then(digits)
            .and_then(|n| i64::try_from(n).ok());
        if !value.is_some_and(|value| setting.set(value)) {
            return Err(LoadError::new(format!(
                "{} must be an integer from {} to {}",
                name_of(setting),
                setting.min,
                setting.max
            )));
        }
        at += 2;
    }
    Ok(())
}

fn names(word: &[u8], setting: &NumberSetting) -> bool {
    let bare = match word.get(..3) {
        Some(prefix) if is(prefix, "mq.") => &word[3..],
        _ => word,
    };
    bare.eq_ignore_ascii_case(setting.name.to_bytes())
}

fn name_of(setting: &NumberSetting) -> &'static str {
    // All names above are ASCII.
    setting.name.to_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::tests::words;

    fn refusal(line: &str) -> String {
        apply(&words(line)[..]).unwrap_err().to_string()
    }

    // One test for all that sets values, since they are the process's.
    #[test]
    fn load_arguments_set_values_with_or_without_the_prefix() {
        assert_eq!(lock_ms(), 3_600_000);
        assert_eq!(
            apply(&words("lock-ms 5000 MQ.Max-Dead 0 idle-ms 0")[..]),
            Ok(())
        );
        assert_eq!((lock_ms(), max_dead()), (5000, 0));
        assert_eq!((backoff_factor_ms(), backoff_max_ms()), (2200, 86_400_000));
    }

    #[test]
    fn wrong_load_arguments_are_refused_with_the_reason() {
        assert!(refusal("lock_ms 5").starts_with("argument 1 of the module is none of lock-ms,"));
        assert!(refusal("backoff-factor-ms 5 nonsense").starts_with("argument 3 "));
        for line in [
            "backoff-max-ms",
            "backoff-max-ms 0",
            "mq.backoff-max-ms 315360000001",
        ] {
            assert_eq!(
                refusal(line),
                "backoff-max-ms must be an integer from 1 to 315360000000",
                "{line}"
            );
        }
        assert_eq!(
            refusal("backoff-factor-ms 7 mq.backoff-factor-ms 7"),
            "backoff-factor-ms is given twice"
        );
    }
}
