//! A system clock that can be stepped, for one server.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::OnceLock;

use redis_mq_testkit::ServerBuilder;

/// The clock of the servers that were started with it; at first that of the machine.
#[derive(Debug)]
pub struct Clock {
    file: PathBuf,
}

impl Clock {
    /// A clock that goes right.
    pub fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("clock-{}-{number}", std::process::id());
        let clock = Self {
            file: scratch().join(name),
        };
        clock.write(0, &[0; 16]);
        clock
    }

    /// Lets a server go by this clock.
    pub fn for_server(&self, builder: ServerBuilder) -> ServerBuilder {
        builder
            .env("LD_PRELOAD", library())
            .env("MQ_CLOCK_FILE", &self.file)
    }

    /// Makes the clock differ from that of the machine by so many milliseconds from now on.
    pub fn set_ms(&self, offset: i64) {
        self.write(0, &(offset * 1000).to_ne_bytes());
    }

    /// Lets the machine of the clock sleep for so long, in milliseconds: real time passes. Called again,
    /// it counts all from the beginning.
    pub fn sleep_ms(&self, ms: i64) {
        self.write(8, &(ms * 1000).to_ne_bytes());
    }

    /// One write into the mapped file; truncating it would pull the page away.
    fn write(&self, at: u64, bytes: &[u8]) {
        let file = fs::File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&self.file);
        file.and_then(|file| file.write_all_at(bytes, at))
            .expect("the clock's file can be written");
    }
}

impl Drop for Clock {
    fn drop(&mut self) {
        // Left behind in the build folder at worst.
        let _ = fs::remove_file(&self.file);
    }
}

fn scratch() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

/// Compiles the preloaded part, once per process.
fn library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/faults/clock.c");
        let own = scratch().join(format!("clock-{}.so", std::process::id()));
        let status = Command::new("cc")
            .args(["-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-o"])
            .args([&own, &source])
            .status()
            .expect("there is a C compiler, as Rust needs one");
        assert!(status.success(), "{} does not compile", source.display());
        // Other processes may do the same at this moment, and their servers have it loaded.
        let library = scratch().join("clock.so");
        fs::rename(&own, &library).expect("a file can be renamed");
        library
    })
}
