//! The value that a queue's key holds, and how the server saves, copies and compares it.

use rand::rngs::SmallRng;
use rand::{RngCore, SeedableRng};
use redis_mq_core::{Loader, Log, Queue, Relocate};

use crate::commands::apply;
use crate::info::Share;
use crate::redis::{
    AofWriter, DigestWriter, IoError, Mover, NativeType, RdbReader, RdbWriter, TypeHandle,
};
use crate::wake;

/// The registered type.
pub static QUEUE_TYPE: TypeHandle<StoredQueue> = TypeHandle::new();

/// A queue with what the module needs beside it.
pub struct StoredQueue {
    /// The queue itself.
    pub queue: Queue,
    /// Effects of the running command; kept for its memory.
    pub log: Log,
    /// Where ids, seeds and jitter come from.
    pub random: SmallRng,
    /// When the module looks at the queue by itself.
    pub look: wake::Handle,
    /// What it has added to `INFO mq`.
    pub share: Share,
    /// Whether it came to its place by another way than its own deliveries, and has delivered nothing
    /// since: an older queue may have been there whose tokens must not be given again.
    pub is_new_here: bool,
}

impl StoredQueue {
    /// An empty queue.
    pub fn new() -> Self {
        let mut random = SmallRng::from_os_rng();
        let queue = Queue::new(random.next_u64());
        Self::around(queue, random)
    }

    fn around(queue: Queue, random: SmallRng) -> Self {
        let share = Share::of(&queue);
        Self {
            queue,
            log: Log::default(),
            random,
            look: wake::Handle::default(),
            share,
            is_new_here: true,
        }
    }
}

impl Default for StoredQueue {
    fn default() -> Self {
        Self::new()
    }
}

impl Relocate for Mover {
    fn slice<T>(&mut self, block: &mut Box<[T]>) {
        Mover::slice(self, block);
    }

    fn value<T>(&mut self, block: &mut Box<T>) {
        Mover::value(self, block);
    }
}

/// Allocations that a message takes, for the server's choice of where to free a queue.
const ALLOCATIONS_PER_MESSAGE: usize = 1;

impl NativeType for StoredQueue {
    const NAME: &'static std::ffi::CStr = c"mq-circle";
    /// Stays as it is: each chunk names its own version, so an older module reads the queues that use
    /// nothing newer, and names the reason where it refuses one.
    const ENCODING: i32 = 1;

    fn load(reader: &mut RdbReader<'_>, _encoding: i32) -> Result<Self, IoError> {
        let mut random = SmallRng::from_os_rng();
        let mut loader = Loader::new(random.next_u64());
        loop {
            let chunk = reader.bytes()?;
            if chunk.is_empty() {
                break;
            }
            loader
                .feed(&chunk)
                .map_err(|damaged| refuse(reader, damaged.0))?;
        }
        let queue = loader
            .finish()
            .map_err(|damaged| refuse(reader, damaged.0))?;
        let mut stored = Self::around(queue, random);
        if let Some((db, name)) = reader.place() {
            wake::placed(db, name, &mut stored);
        }
        Ok(stored)
    }

    fn save(&self, writer: &mut RdbWriter<'_>) {
        self.queue.snapshot(|chunk| writer.bytes(chunk));
        writer.bytes(b"");
    }

    fn rewrite(&self, writer: &mut AofWriter<'_>) {
        self.queue.snapshot(|chunk| writer.emit(apply::NAME, chunk));
    }

    fn digest(&self, digest: &mut DigestWriter<'_>) {
        self.queue.digest(|chunk| digest.bytes(chunk));
        digest.end_group();
    }

    fn memory_usage(&self, _samples: usize) -> usize {
        size_of::<Self>() + self.look.bytes() + self.log.bytes_held() + self.queue.bytes()
    }

    fn free_effort(&self) -> usize {
        self.queue.len() * ALLOCATIONS_PER_MESSAGE
    }

    fn defrag(&mut self, cursor: u64, mover: &mut Mover) -> Option<u64> {
        self.queue.relocate(cursor, mover)
    }

    fn copy(&self, place: Option<(i32, &[u8])>) -> Option<Self> {
        let mut random = SmallRng::from_os_rng();
        let mut loader = Loader::new(random.next_u64());
        let mut whole = true;
        self.queue
            .snapshot(|chunk| whole = whole && loader.feed(chunk).is_ok());
        let queue = loader.finish().ok().filter(|_| whole)?;
        let mut stored = Self::around(queue, random);
        if let Some((db, name)) = place {
            wake::placed(db, name, &mut stored);
        }
        Some(stored)
    }
}

fn refuse(reader: &mut RdbReader<'_>, why: &'static str) -> IoError {
    reader.refuse(&format!("a queue was refused: {why}"));
    IoError
}
