//! At most one mutable, or any number of shared borrows of values at a time.
//!
//! The server hands out the same pointer each time a key is opened, so two open handles could alias.
//! All values are used on the server's thread under its lock; one state for all keys is enough, since
//! no step of the module works on two keys at once.

use std::sync::atomic::{AtomicIsize, Ordering};

/// -1: one writer, 0: free, n: that many readers.
static STATE: AtomicIsize = AtomicIsize::new(0);

/// Proof of a shared borrow; dropping it ends the borrow.
pub(in crate::redis) struct Shared(());

/// Proof of the only borrow; dropping it ends the borrow.
pub(in crate::redis) struct Exclusive(());

impl Shared {
    #[inline]
    pub(in crate::redis) fn acquire() -> Option<Shared> {
        // Plain loads and stores will do: the server's lock orders all callers.
        let state = STATE.load(Ordering::Relaxed);
        (state >= 0).then(|| {
            STATE.store(state + 1, Ordering::Relaxed);
            Shared(())
        })
    }
}

impl Exclusive {
    #[inline]
    pub(in crate::redis) fn acquire() -> Option<Exclusive> {
        (STATE.load(Ordering::Relaxed) == 0).then(|| {
            STATE.store(-1, Ordering::Relaxed);
            Exclusive(())
        })
    }
}

/// Whether no value is borrowed: the state in which the server may run other modules' code.
#[inline]
pub(in crate::redis) fn is_free() -> bool {
    STATE.load(Ordering::Relaxed) == 0
}

impl Drop for Shared {
    #[inline]
    fn drop(&mut self) {
        STATE.store(STATE.load(Ordering::Relaxed) - 1, Ordering::Relaxed);
    }
}

impl Drop for Exclusive {
    #[inline]
    fn drop(&mut self) {
        STATE.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_borrowed_by_one_writer_or_by_readers() {
        let readers = (Shared::acquire(), Shared::acquire());
        assert!(readers.0.is_some() && readers.1.is_some());
        assert!(Exclusive::acquire().is_none());
        drop(readers);
        let writer = Exclusive::acquire();
        assert!(writer.is_some());
        assert!(Shared::acquire().is_none() && Exclusive::acquire().is_none());
        drop(writer);
        assert!(is_free());
    }
}
