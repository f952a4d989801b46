//! What commands print, line by line, with the message's id in front.

use std::{
    io::{self, Write as _},
    sync::{Mutex, PoisonError},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use serde_json::{Map, Value as Json};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncRead, BufReader},
    sync::{mpsc, watch},
};

use crate::output;

/// Longer lines are printed in pieces.
const LONGEST_LINE: usize = 8 * 1024;
/// How many lines may wait for a slow reader. Then commands wait too, and nothing else does.
const WAITING: usize = 256;

/// How long the end may wait for a slow reader.
const LAST_LINES: Duration = Duration::from_secs(5);

/// Standard output or standard error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    Out,
    Err,
}

/// A line, and where it goes.
type Line = (Stream, Vec<u8>);

/// Writes lines on a thread of its own, so that a reader of the output that stops reading does not
/// stop locks from being extended.
pub struct Printer {
    json: bool,
    state: Mutex<Option<(mpsc::Sender<Line>, JoinHandle<()>)>>,
    /// From now on nobody waits for the reader.
    hurry: watch::Sender<bool>,
}

impl Printer {
    /// Starts the thread.
    pub fn start(json: bool) -> Self {
        let (sender, mut lines) = mpsc::channel::<Line>(WAITING);
        let writer = thread::spawn(move || {
            while let Some((stream, line)) = lines.blocking_recv() {
                // Nobody may be left to read it, which is no reason to stop working.
                let _ = match stream {
                    Stream::Out => io::stdout().write_all(&line),
                    Stream::Err => io::stderr().write_all(&line),
                };
            }
        });
        Self {
            json,
            state: Mutex::new(Some((sender, writer))),
            hurry: watch::Sender::new(false),
        }
    }

    /// From now on lines for which there is no room are dropped.
    pub fn hurry(&self) {
        self.hurry.send_replace(true);
    }

    /// Waits until all is written, but not for ever.
    pub fn end(&self) {
        let state = self
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some((sender, writer)) = state {
            drop(sender);
            let started = Instant::now();
            while !writer.is_finished() && started.elapsed() < LAST_LINES {
                thread::sleep(Duration::from_millis(1));
            }
        }
    }

    async fn write(&self, stream: Stream, line: Vec<u8>) {
        let sender = {
            let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.as_ref().map(|(sender, _)| sender.clone())
        };
        let Some(sender) = sender else {
            return;
        };
        let mut hurry = self.hurry.subscribe();
        tokio::select! {
            biased;
            _ = sender.send((stream, line)) => {}
            _ = hurry.wait_for(|hurry| *hurry) => {}
        }
    }

    /// One line of a command.
    async fn line(&self, stream: Stream, queue: &str, id: &[u8], line: &[u8]) {
        if self.json {
            let mut object = Map::new();
            object.insert("queue".into(), queue.into());
            output::put_bytes(&mut object, "id", id);
            let name = if stream == Stream::Out {
                "stdout"
            } else {
                "stderr"
            };
            output::put_bytes(&mut object, name, line);
            return self.write(Stream::Out, object_line(object)).await;
        }
        let mut text = format!("[{}] ", output::name(id)).into_bytes();
        text.extend_from_slice(line);
        text.push(b'\n');
        self.write(stream, text).await;
    }

    /// What became of a message. People are told what did not go well.
    pub async fn verdict(&self, queue: &str, id: &[u8], attempt: i64, told: &Told<'_>) {
        if self.json {
            let mut object = Map::new();
            object.insert("queue".into(), queue.into());
            output::put_bytes(&mut object, "id", id);
            object.insert("attempt".into(), attempt.into());
            object.insert("verdict".into(), told.verdict.into());
            object.insert("became".into(), told.became.into());
            if let Some(reason) = told.reason {
                output::put_bytes(&mut object, "reason", reason);
            }
            return self.write(Stream::Out, object_line(object)).await;
        }
        if told.verdict == "success" && told.reason.is_none() {
            return;
        }
        let id = output::name(id);
        let reason = told
            .reason
            .map(|reason| format!(": {}", output::name(reason)));
        let reason = reason.unwrap_or_default();
        let Told {
            verdict, became, ..
        } = told;
        let line = format!("[{id}] attempt {attempt}: {verdict}, now {became}{reason}\n");
        self.write(Stream::Err, line.into_bytes()).await;
    }

    /// A line about the worker itself.
    pub async fn notice(&self, text: &str) {
        self.write(Stream::Err, format!("redis-mq: {text}\n").into_bytes())
            .await;
    }

    /// Prints what the command prints there until its end. The last line that says something is the
    /// result.
    pub async fn follow(
        &self,
        stream: Stream,
        queue: &str,
        id: &[u8],
        source: impl AsyncRead + Unpin,
        last: &Mutex<Vec<u8>>,
    ) {
        let mut source = BufReader::with_capacity(LONGEST_LINE, source);
        let mut line = Vec::new();
        loop {
            let piece = match source.fill_buf().await {
                Ok(piece) if !piece.is_empty() => piece,
                _ => break,
            };
            let room = LONGEST_LINE - line.len();
            let end = piece.iter().take(room).position(|byte| *byte == b'\n');
            let taken = end.unwrap_or(piece.len().min(room));
            line.extend_from_slice(&piece[..taken]);
            source.consume(taken + usize::from(end.is_some()));
            if end.is_some() || line.len() == LONGEST_LINE {
                self.whole(stream, queue, id, &mut line, last).await;
            }
        }
        if !line.is_empty() {
            self.whole(stream, queue, id, &mut line, last).await;
        }
    }

    async fn whole(
        &self,
        stream: Stream,
        queue: &str,
        id: &[u8],
        line: &mut Vec<u8>,
        last: &Mutex<Vec<u8>>,
    ) {
        if !line.trim_ascii().is_empty() {
            let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
            last.clear();
            last.extend_from_slice(line.trim_ascii());
        }
        self.line(stream, queue, id, line).await;
        line.clear();
    }
}

/// Reads to the end, and keeps so much of it and one byte more.
pub async fn collect(source: impl AsyncRead + Unpin, most: usize, into: &Mutex<Vec<u8>>) {
    let mut source = BufReader::with_capacity(LONGEST_LINE, source);
    loop {
        let taken = match source.fill_buf().await {
            Ok(piece) if !piece.is_empty() => {
                let mut kept = into.lock().unwrap_or_else(PoisonError::into_inner);
                let room = (most + 1).saturating_sub(kept.len());
                kept.extend_from_slice(&piece[..piece.len().min(room)]);
                piece.len()
            }
            _ => break,
        };
        source.consume(taken);
    }
}

/// A verdict, and what the server made of it.
pub struct Told<'a> {
    /// `success`, `retry`, `error`, `release`, or `none`.
    pub verdict: &'static str,
    /// Why.
    pub reason: Option<&'a [u8]>,
    /// What the message became.
    pub became: &'a str,
}

fn object_line(object: Map<String, Json>) -> Vec<u8> {
    format!("{}\n", Json::Object(object)).into_bytes()
}
