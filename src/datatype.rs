//! The value that a queue's key holds, and how the server saves, copies and compares it.

use redis_mq_core::{Loader, Queue, Relocate};

use crate::record::APPLY;
use crate::redis::{
    AofWriter, DigestWriter, IoError, Mover, NativeType, RdbReader, RdbWriter, TypeHandle,
};
use crate::scratch;
use crate::stored::StoredQueue;
use crate::wake;

/// The registered type.
pub static QUEUE_TYPE: TypeHandle<StoredQueue> = TypeHandle::new();

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
        let mut loader = Loader::new(scratch::random());
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
        let mut stored = Self::around(queue);
        if let Some((db, name)) = reader.place() {
            wake::placed(db, name, &mut stored);
        }
        Ok(stored)
    }

    fn save(&self, writer: &mut RdbWriter<'_>) {
        self.snapshot(|chunk| writer.bytes(chunk));
        writer.bytes(b"");
    }

    fn rewrite(&self, writer: &mut AofWriter<'_>) {
        self.snapshot(|chunk| writer.emit(APPLY, chunk));
    }

    fn digest(&self, digest: &mut DigestWriter<'_>) {
        Self::digest(self, |chunk| digest.bytes(chunk));
        digest.end_group();
    }

    fn memory_usage(&self, _samples: usize) -> usize {
        self.bytes()
    }

    fn free_effort(&self) -> usize {
        self.working().map_or(0, Queue::len) * ALLOCATIONS_PER_MESSAGE
    }

    fn defrag(&mut self, cursor: u64, mover: &mut Mover) -> Option<u64> {
        self.relocate(cursor, mover)
    }

    fn unlinked(&self) {
        self.waits.left();
    }

    fn copy(&self, place: Option<(i32, &[u8])>) -> Option<Self> {
        let mut loader = Loader::new(scratch::random());
        let mut whole = true;
        self.snapshot(|chunk| whole = whole && loader.feed(chunk).is_ok());
        let queue = loader.finish().ok().filter(|_| whole)?;
        let mut stored = Self::around(queue);
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
