//! Results in a snapshot: behind all messages, in chunks of their own (docs/format.md).

use crate::codec::{put_bytes, put_number, Damaged, Reader};
use crate::effects::{put_key, read_instant};
use crate::fields::{read_fields, Field};
use crate::id::Key;
use crate::queue::Queue;
use crate::results::Held;

/// The state of what is not a message, but what one has left.
pub(crate) const RESULT: u8 = 8;

impl Queue {
    /// Writes the results as chunks that each begin with `start` and are closed when they have grown to
    /// `most` bytes.
    pub(crate) fn write_results(&self, start: &[u8], most: usize, mut sink: impl FnMut(&[u8])) {
        let Some(results) = &self.results else { return };
        let mut out = Vec::new();
        results.for_each_in_order(|held| {
            if out.is_empty() {
                out.extend_from_slice(start);
            }
            out.push(RESULT);
            put_key(&mut out, &held.key);
            put_number(&mut out, held.at.millis());
            put_number(&mut out, held.until.millis());
            put_bytes(&mut out, held.value);
            if out.len() >= most {
                sink(&out);
                out.clear();
            }
        });
        if !out.is_empty() {
            sink(&out);
        }
    }

    /// Takes in what follows the state and the id of a result.
    pub(crate) fn read_result<'a>(
        &mut self,
        key: Key<'a>,
        reader: &mut Reader<'a>,
        has_fields: bool,
    ) -> Result<(), Damaged> {
        let held = Held {
            key,
            at: read_instant(reader)?,
            until: read_instant(reader)?,
            value: reader.bytes()?,
        };
        if has_fields {
            read_fields(reader, Field::pass_over)?;
        }
        if self.result_of(&key).is_some() {
            return Err(Damaged("two results of one id"));
        }
        if !self.may_have_result(&key) {
            return Err(Damaged("a result of a message that is not finished"));
        }
        self.hold_result(held);
        Ok(())
    }
}
