//! Looks at the whole queue now and then.

use std::time::Duration;

use redis::Value;
use tokio::time::{sleep_until, Instant};

use crate::{
    producer::info::QueueInfo,
    worker::{
        run::core::Core,
        settings::{Settings, SizeWarning},
    },
};

/// How often to look for a size warning alone.
const BY_DEFAULT: Duration = Duration::from_secs(10);

pub(crate) struct Sampler {
    every: Option<Duration>,
    next: Instant,
    warning: Option<SizeWarning>,
    warned: Option<Instant>,
}

impl Sampler {
    pub(crate) fn new(settings: &Settings) -> Self {
        let warning = settings.size_warning;
        let for_warning = warning.map(|warning| {
            warning
                .at_most_every
                .clamp(Duration::from_millis(100), BY_DEFAULT)
        });
        Self {
            every: settings.sample_every.or(for_warning),
            next: Instant::now(),
            warning,
            warned: None,
        }
    }

    pub(crate) fn is_due(&self) -> bool {
        self.every.is_some() && self.next <= Instant::now()
    }

    /// Returns when the next look is due, or never.
    pub(crate) async fn due(&self) {
        match self.every {
            Some(_) => sleep_until(self.next).await,
            None => std::future::pending().await,
        }
    }

    /// The queue has been looked at; `None` is a look that failed.
    pub(crate) fn sampled(&mut self, core: &Core, info: Option<Value>) {
        let now = Instant::now();
        self.next = now + self.every.unwrap_or(BY_DEFAULT);
        // A queue that does not exist is an empty one.
        let info = info.map(|value| QueueInfo::from_reply(value).unwrap_or_default());
        let Some(info) = info else { return };
        let size = info.waiting();
        if let Some(above) = self.warns(size, now) {
            tracing::warn!(queue = %core.spec.queue.shown, size, above, "the queue is long");
        }
        core.set_sample(info);
    }

    /// The limit that this size is above of, if that is worth a warning now.
    fn warns(&mut self, size: u64, now: Instant) -> Option<u64> {
        let SizeWarning {
            above,
            at_most_every,
        } = self.warning?;
        let quiet = self
            .warned
            .is_some_and(|warned| now < warned + at_most_every);
        if size <= above || quiet {
            return None;
        }
        self.warned = Some(now);
        Some(above)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_queue_is_warned_of_once_in_a_while() {
        let settings = Settings {
            size_warning: Some(SizeWarning {
                above: 10,
                at_most_every: Duration::from_secs(60),
            }),
            ..Settings::default()
        };
        let mut sampler = Sampler::new(&settings);
        let start = Instant::now();
        assert_eq!(sampler.warns(10, start), None);
        assert_eq!(sampler.warns(11, start), Some(10));
        assert_eq!(sampler.warns(500, start + Duration::from_secs(59)), None);
        assert_eq!(
            sampler.warns(500, start + Duration::from_secs(60)),
            Some(10)
        );
    }
}
