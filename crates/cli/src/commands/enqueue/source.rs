//! Where lines come from.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, IsTerminal as _, Read, Seek as _},
    path::Path,
};

use indicatif::{ProgressBar, ProgressStyle};

use super::line::Message;
use crate::failure::Failure;

/// The lines of a file or of standard input, as messages.
pub struct Source {
    lines: Box<dyn BufRead>,
    jsonl: bool,
    /// How many lines were read.
    number: u64,
    /// How many bytes were read.
    read: u64,
    /// How many bytes there are, if that is known.
    length: Option<u64>,
}

impl Source {
    /// Opens the file, or standard input. With `check`, lines of JSON are all read and checked now;
    /// those of standard input are kept in a temporary file meanwhile.
    pub fn open(file: Option<&Path>, jsonl: bool, check: bool) -> Result<Self, Failure> {
        let opened = match file {
            Some(path) => Some(File::open(path).map_err(|e| Failure::local(path.display(), &e))?),
            None => {
                if io::stdin().is_terminal() {
                    anstream::eprintln!("one message a line; Ctrl-D ends");
                }
                None
            }
        };
        if !(jsonl && check) {
            return Ok(Self::new(opened, jsonl));
        }
        let mut kept = match opened {
            Some(file) => file,
            None => spool().map_err(|error| Failure::local("standard input", &error))?,
        };
        let copy = kept
            .try_clone()
            .map_err(|e| Failure::local("the lines", &e))?;
        let mut first = Self::new(Some(copy), jsonl);
        loop {
            let (messages, broken) = first.next_batch(1_000);
            if let Some(failure) = broken {
                let line = format!("{}; nothing was sent", failure.line().unwrap_or_default());
                return Err(failure.with_line(&line));
            }
            if messages.is_empty() {
                break;
            }
        }
        kept.rewind()
            .map_err(|error| Failure::local("the lines", &error))?;
        Ok(Self::new(Some(kept), jsonl))
    }

    fn new(file: Option<File>, jsonl: bool) -> Self {
        let length = file
            .as_ref()
            .and_then(|file| file.metadata().ok())
            .map(|meta| meta.len());
        let reader: Box<dyn Read> = match file {
            Some(file) => Box::new(file),
            None => Box::new(io::stdin()),
        };
        Self {
            lines: Box::new(BufReader::with_capacity(1 << 16, reader)),
            jsonl,
            number: 0,
            read: 0,
            length,
        }
    }

    /// The next messages, none at the end; and what is wrong with the line after them.
    pub fn next_batch(&mut self, most: usize) -> (Vec<Message>, Option<Failure>) {
        let mut messages = Vec::new();
        while messages.len() < most {
            match self.next() {
                Ok(Some(message)) => messages.push(message),
                Ok(None) => break,
                Err(failure) => return (messages, Some(failure)),
            }
        }
        (messages, None)
    }

    fn next(&mut self) -> Result<Option<Message>, Failure> {
        loop {
            let mut line = Vec::new();
            let length = self
                .lines
                .read_until(b'\n', &mut line)
                .map_err(|error| Failure::local("reading the lines", &error))?;
            if length == 0 {
                return Ok(None);
            }
            self.number += 1;
            self.read += length as u64;
            if line.ends_with(b"\n") {
                line.pop();
            }
            if line.ends_with(b"\r") {
                line.pop();
            }
            if line.is_empty() {
                continue;
            }
            if !self.jsonl {
                return Ok(Some(Message::plain(line)));
            }
            let number = self.number;
            let message = Message::from_json(&line)
                .map_err(|why| Failure::usage(format!("line {number}: {why}")))?;
            return Ok(Some(message));
        }
    }

    /// How many bytes were read.
    pub fn position(&self) -> u64 {
        self.read
    }

    /// A bar for the bytes on a terminal; elsewhere nothing is shown.
    pub fn progress(&self) -> ProgressBar {
        let Some(length) = self.length else {
            return ProgressBar::hidden();
        };
        let style = ProgressStyle::with_template("{bar:40} {bytes}/{total_bytes} {eta}");
        // The template is right, and a bar without it is a bar too.
        let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
        ProgressBar::new(length).with_style(style)
    }
}

/// All of standard input in a temporary file, from its beginning.
fn spool() -> io::Result<File> {
    let mut file = tempfile::tempfile()?;
    io::copy(&mut io::stdin().lock(), &mut file)?;
    file.rewind()?;
    Ok(file)
}
