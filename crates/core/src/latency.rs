//! How long messages wait and how long the work on them takes, as histograms.
//!
//! Both follow from what the value holds (since when a message is ready, the token of a delivery, the
//! frame), so a replica measures the same as its primary.

use crate::codec::{put_number, Damaged, Reader};
use crate::message::State;
use crate::queue::Queue;
use crate::relocate::Relocate;
use crate::types::Token;

/// Buckets of an octave.
const PER_OCTAVE: u64 = 4;
/// Octaves of the 48 bits of a span between two instants.
const OCTAVES: u64 = 48;
/// The first bucket is for zero.
const BUCKETS: usize = (1 + OCTAVES * PER_OCTAVE) as usize;

/// 2^63 times the quarter powers of two: where the buckets of an octave begin.
const QUARTERS: [u64; PER_OCTAVE as usize] = [
    0x8000_0000_0000_0000,
    0x9837_F051_8DB8_A96F,
    0xB504_F333_F9DE_6485,
    0xD744_FCCA_D69D_6AF4,
];

/// How often which time was measured. The bounds of a bucket are at most a fifth apart.
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    /// As long as the highest bucket that has any.
    counts: Box<[u64]>,
    sum_ms: u64,
}

/// What is measured of a queue, since it was created.
#[derive(Clone, Debug, Default)]
pub struct Latency {
    /// From the moment at which a message became ready to its first delivery.
    pub wait: Histogram,
    /// From a delivery to the verdict that ended it as done, to be retried, or failed.
    pub work: Histogram,
}

/// The bucket of a time.
#[inline]
fn bucket_of(ms: u64) -> usize {
    if ms == 0 {
        return 0;
    }
    let octave = u64::from(u64::BITS - 1 - ms.leading_zeros());
    if octave >= OCTAVES {
        return BUCKETS - 1;
    }
    let normal = ms << ms.leading_zeros();
    let [_, one, two, three] = QUARTERS.map(|quarter| u64::from(normal >= quarter));
    (1 + octave * PER_OCTAVE + one + two + three) as usize
}

/// The shortest time of a bucket, in whole milliseconds.
fn begin_of(bucket: usize) -> u64 {
    let Some(at) = (bucket as u64).checked_sub(1) else {
        return 0;
    };
    let (octave, quarter) = (at / PER_OCTAVE, at % PER_OCTAVE);
    let down = u64::from(u64::BITS) - 1 - octave;
    let rest = (1 << down) - 1;
    let begin = QUARTERS[quarter as usize];
    (begin >> down) + u64::from(begin & rest != 0)
}

impl Histogram {
    #[inline]
    fn measure(&mut self, ms: u64) {
        let bucket = bucket_of(ms);
        if bucket >= self.counts.len() {
            self.grow(bucket + 1);
        }
        self.counts[bucket] += 1;
        self.sum_ms = self.sum_ms.saturating_add(ms);
    }

    #[cold]
    fn grow(&mut self, len: usize) {
        let mut counts = Vec::with_capacity(len);
        counts.extend_from_slice(&self.counts);
        counts.resize(len, 0);
        self.counts = counts.into_boxed_slice();
    }

    /// How many times were measured.
    pub fn count(&self) -> u64 {
        self.counts.iter().copied().fold(0, u64::saturating_add)
    }

    /// Their sum, in milliseconds.
    pub fn sum_ms(&self) -> u64 {
        self.sum_ms
    }

    /// The buckets that have any: the longest time of each in milliseconds, and how many times were at
    /// most so long.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let mut sum = 0_u64;
        let any = |(_, count): &(usize, &u64)| **count != 0;
        (self.counts.iter().enumerate())
            .filter(any)
            .map(move |(bucket, count)| {
                sum = sum.saturating_add(*count);
                (begin_of(bucket + 1) - 1, sum)
            })
    }

    /// A time that so many of a hundred did not exceed, in milliseconds: the longest of its bucket. Zero
    /// if nothing was measured.
    pub fn percentile(&self, of_hundred: u64) -> u64 {
        let rank = self.count().saturating_mul(of_hundred).div_ceil(100);
        let mut buckets = self.buckets();
        buckets
            .find(|(_, sum)| *sum >= rank)
            .map_or(0, |(ms, _)| ms)
    }

    /// As the value of a field: the sum; then for each bucket that has any, how many buckets after the one
    /// before, and its count.
    fn write(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put_number(&mut out, self.sum_ms);
        let mut last = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            if *count != 0 {
                put_number(&mut out, (bucket - last) as u64);
                put_number(&mut out, *count);
                last = bucket;
            }
        }
        out
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, Damaged> {
        let mut read = Self {
            sum_ms: reader.number()?,
            ..Self::default()
        };
        let mut bucket = 0;
        while !reader.is_empty() {
            let gap = reader.number_to(BUCKETS as u64)? as usize;
            let count = reader.number()?;
            let is_next = gap != 0 || read.counts.is_empty();
            bucket += gap;
            if !is_next || bucket >= BUCKETS || count == 0 {
                return Err(Damaged("a bucket out of order"));
            }
            read.grow(bucket + 1);
            read.counts[bucket] = count;
        }
        Ok(read)
    }
}

impl Latency {
    /// Bytes in memory.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>() + (self.wait.counts.len() + self.work.counts.len()) * size_of::<u64>()
    }

    pub(crate) fn relocate(&mut self, mover: &mut impl Relocate) {
        mover.slice(&mut self.wait.counts);
        mover.slice(&mut self.work.counts);
    }
}

/// A header's fields for both histograms. Who does not know them may pass over them.
const WAIT: u64 = 7;
const WORK: u64 = 9;

impl Queue {
    /// What was measured; none before the first delivery.
    pub fn latency(&self) -> Option<&Latency> {
        self.latency.as_deref()
    }

    /// At a delivery, the first or a further one, of a message that was in this state.
    #[inline]
    pub(crate) fn measure_wait(&mut self, state: State, is_first: bool) {
        if let State::Ready { since, token: None } = state {
            if is_first {
                let ms = since.until(self.frame.instant()).millis();
                self.latency_mut().wait.measure(ms);
            }
        }
    }

    /// At the verdict on the delivery of this token.
    #[inline]
    pub(crate) fn measure_work(&mut self, token: Option<Token>) {
        if let Some(token) = token {
            // Many tokens of one millisecond may be ahead of the clock.
            let us = self.frame.now_us.saturating_sub(token.value());
            self.latency_mut().work.measure(us / 1000);
        }
    }

    #[inline]
    fn latency_mut(&mut self) -> &mut Latency {
        self.latency.get_or_insert_default()
    }

    pub(crate) fn write_latency(&self, mut field: impl FnMut(u64, &[u8])) {
        if let Some(latency) = &self.latency {
            for (number, histogram) in [(WAIT, &latency.wait), (WORK, &latency.work)] {
                if !histogram.counts.is_empty() {
                    field(number, &histogram.write());
                }
            }
        }
    }

    /// Takes in a field if it is one of these.
    pub(crate) fn read_latency(
        &mut self,
        field: crate::fields::Field<'_>,
    ) -> Result<bool, Damaged> {
        let histogram = match field.number {
            WAIT => &mut self.latency_mut().wait,
            WORK => &mut self.latency_mut().work,
            _ => return Ok(false),
        };
        *histogram = field.read(Histogram::read)?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_is_between_the_bounds_of_its_bucket() {
        let powers = (0..48).flat_map(|bit| {
            let power = 1_u64 << bit;
            [power - 1, power, power + 1, power + power / 5]
        });
        for ms in (0..10_000).chain(powers) {
            let bucket = bucket_of(ms);
            assert!(begin_of(bucket) <= ms, "{ms} in {bucket}");
            assert!(ms < begin_of(bucket + 1), "{ms} in {bucket}");
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn bounds_are_at_most_a_fifth_apart() {
        for bucket in bucket_of(32)..BUCKETS - 1 {
            let (begin, next) = (begin_of(bucket), begin_of(bucket + 1));
            assert!(next > begin && 5 * next <= 6 * begin + 5, "{begin} {next}");
        }
    }

    #[test]
    fn percentiles_and_sums_are_those_of_what_was_measured() {
        let mut histogram = Histogram::default();
        assert_eq!((histogram.percentile(50), histogram.count()), (0, 0));
        for ms in 1..=100 {
            histogram.measure(ms);
        }
        assert_eq!((histogram.count(), histogram.sum_ms()), (100, 5050));
        for (of_hundred, at_most) in [(50, 60), (95, 114), (99, 119)] {
            let told = histogram.percentile(of_hundred);
            assert!(
                (of_hundred..=at_most).contains(&told),
                "{of_hundred}: {told}"
            );
        }
        assert_eq!(histogram.buckets().last().map(|(_, sum)| sum), Some(100));
    }

    #[test]
    fn what_was_written_is_read_back_and_damage_is_refused() {
        let mut histogram = Histogram::default();
        for ms in [0, 0, 3, 70, 70_000_000] {
            histogram.measure(ms);
        }
        let bytes = histogram.write();
        let read = Histogram::read(&mut Reader::new(&bytes)).unwrap();
        assert_eq!((read.write(), read.count()), (bytes, 5));
        for damaged in [&[5, 0][..], &[5, 3, 0], &[5, 0, 1, 0, 1], &[5, 200, 1, 1]] {
            assert!(
                Histogram::read(&mut Reader::new(damaged)).is_err(),
                "{damaged:?}"
            );
        }
    }
}
