//! What is to be sent, until it is known to have arrived.

use std::sync::{atomic::Ordering, Arc};

use crate::{handler::answer::Answer, message::delivery::Delivery};

/// An answer that is not known to have arrived.
#[derive(Debug, Clone)]
pub(crate) struct Unsent {
    pub(crate) delivery: Arc<Delivery>,
    pub(crate) answer: Answer,
    /// The lock may have ended meanwhile.
    pub(crate) doubtful: bool,
}

/// What is to be sent: locks to extend, and answers.
#[derive(Debug, Default, Clone)]
pub(crate) struct Outgoing {
    pub(crate) extensions: Vec<Arc<Delivery>>,
    pub(crate) answers: Vec<Unsent>,
}

impl Outgoing {
    fn is_empty(&self) -> bool {
        self.extensions.is_empty() && self.answers.is_empty()
    }

    fn doubtful(&self) -> usize {
        self.answers.iter().filter(|unsent| unsent.doubtful).count()
    }
}

/// Everything that is to be sent, in its order.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    waiting: Outgoing,
    /// What has been collected and is not settled. It is still here, so that whoever sends it may
    /// fail in any way, and the next one sends it.
    sending: Arc<Outgoing>,
    /// How many of all these are doubtful.
    doubtful: usize,
    /// Answers cannot be sent at the moment.
    cut_off: bool,
}

impl Outbox {
    /// Adds an answer. `true`: it is the first one that waits, so that whoever sends has to be
    /// woken.
    pub(crate) fn add(&mut self, delivery: Arc<Delivery>, answer: Answer) -> bool {
        delivery.ended.store(true, Ordering::Release);
        let doubtful = delivery.is_lost();
        self.doubtful += usize::from(doubtful);
        self.waiting.answers.push(Unsent {
            delivery,
            answer,
            doubtful,
        });
        self.waiting.answers.len() == 1
    }

    /// Adds locks to extend.
    pub(crate) fn extend(&mut self, locks: &mut Vec<Arc<Delivery>>) {
        self.waiting.extensions.append(locks);
    }

    /// How many answers are not known to have arrived.
    pub(crate) fn unsent(&self) -> usize {
        self.waiting.answers.len() + self.sending.answers.len()
    }

    /// Those answers, the oldest first.
    pub(crate) fn answers(&self) -> impl Iterator<Item = &Unsent> {
        self.sending.answers.iter().chain(&self.waiting.answers)
    }

    /// Whether an answer waits for so long that its message may be ready again.
    pub(crate) fn is_late(&self) -> bool {
        self.doubtful > 0 || (self.cut_off && self.unsent() > 0)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.sending.is_empty()
    }

    /// What is to be sent, at most so many answers: first what was collected before and is not
    /// [settled](Self::settle).
    pub(crate) fn collect(&mut self, most: usize) -> Arc<Outgoing> {
        let Self {
            waiting, sending, ..
        } = self;
        let next = Arc::make_mut(sending);
        next.extensions.append(&mut waiting.extensions);
        // Handlers may have ended, and locks been lost, since these were asked for.
        next.extensions
            .retain(|delivery| !delivery.ended.load(Ordering::Acquire) && !delivery.is_lost());
        let count = most.saturating_sub(next.answers.len());
        if next.answers.is_empty() && waiting.answers.len() <= count {
            std::mem::swap(&mut next.answers, &mut waiting.answers);
        } else {
            let count = count.min(waiting.answers.len());
            next.answers.extend(waiting.answers.drain(..count));
        }
        Arc::clone(sending)
    }

    /// All that was collected is known to have arrived, or is given up, but for what is `unsure`.
    pub(crate) fn settle(&mut self, unsure: Outgoing) {
        let settled = std::mem::replace(&mut self.sending, Arc::new(unsure));
        self.doubtful -= settled.doubtful() - self.sending.doubtful();
    }

    /// Answers can be sent, or cannot.
    pub(crate) fn set_cut_off(&mut self, cut_off: bool) {
        self.cut_off = cut_off;
    }
}
