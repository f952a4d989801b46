//! Help for the unit tests of several modules.

use std::{
    io,
    sync::{Arc, Mutex},
};

use redis::{Arg, Cmd};

/// A command's words, as text.
pub(crate) fn words(command: &Cmd) -> Vec<String> {
    command
        .args_iter()
        .map(|arg| match arg {
            Arg::Simple(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            other => panic!("unexpected argument {}", matches!(other, Arg::Cursor)),
        })
        .collect()
}

/// The log of this thread, for as long as the guard of [`Self::listen`] lives.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    pub(crate) fn listen(&self) -> tracing::subscriber::DefaultGuard {
        let log = self.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_writer(move || log.clone())
            .finish();
        tracing::subscriber::set_default(subscriber)
    }

    /// How many lines have all these words.
    pub(crate) fn count(&self, words: &[&str]) -> usize {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        let all = |line: &&str| words.iter().all(|word| line.contains(word));
        text.lines().filter(all).count()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
