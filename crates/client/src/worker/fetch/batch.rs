//! How many messages to ask for at a time.

/// A reply should not be larger than this: one that does not arrive within the response timeout
/// would strand its messages, and the next one too.
const BYTES: usize = 4 << 20;

/// How many to ask for while nothing is known about the messages' sizes.
const FIRST: usize = 8;

/// Learns the messages' sizes, so that many small ones share a round trip and large ones do not
/// make a reply that takes too long.
#[derive(Debug)]
pub(crate) struct Batch {
    most: usize,
    limit: usize,
    /// The size of payloads in bytes: the largest average of late.
    size: usize,
}

impl Batch {
    pub(crate) fn new(most: usize) -> Self {
        Self {
            most,
            limit: FIRST.min(most),
            size: 0,
        }
    }

    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// So many messages with so many bytes of payload have arrived.
    pub(crate) fn arrived(&mut self, count: usize, bytes: usize) {
        if count == 0 {
            return;
        }
        self.size = (bytes / count).max(self.size - self.size / 8);
        let fits = BYTES / self.size.max(1);
        self.limit = (self.limit * 2).min(self.most).min(fits).max(1);
    }

    /// A reply did not arrive in time.
    pub(crate) fn timed_out(&mut self) {
        self.limit = (self.limit / 4).max(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_messages_come_in_growing_batches_up_to_the_limit() {
        let mut batch = Batch::new(200);
        assert_eq!(batch.limit(), 8);
        for limit in [16, 32, 64, 128, 200, 200] {
            batch.arrived(batch.limit(), batch.limit() * 100);
            assert_eq!(batch.limit(), limit);
        }
        assert_eq!(Batch::new(5).limit(), 5);
    }

    #[test]
    fn large_messages_come_in_batches_that_arrive_in_time() {
        let mut batch = Batch::new(512);
        batch.arrived(8, 8 << 20);
        assert_eq!(batch.limit(), 4);
        batch.arrived(1, 1 << 30);
        assert_eq!(batch.limit(), 1);
        for _ in 0..200 {
            batch.arrived(1, 10);
        }
        assert_eq!(
            batch.limit(),
            512,
            "and grow again when they are small again"
        );
    }

    #[test]
    fn fewer_are_asked_for_after_a_reply_that_took_too_long() {
        let mut batch = Batch::new(512);
        batch.arrived(8, 8);
        for limit in [4, 1, 1] {
            batch.timed_out();
            assert_eq!(batch.limit(), limit);
        }
    }
}
