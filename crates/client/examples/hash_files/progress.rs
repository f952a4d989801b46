//! A progress bar, where there is a terminal.

use std::{
    io::{stdout, IsTerminal, Write},
    time::{Duration, Instant},
};

pub struct Bar {
    total: usize,
    done: usize,
    terminal: bool,
    shown: Option<Instant>,
}

const WIDTH: usize = 40;
const EVERY: Duration = Duration::from_millis(50);

impl Bar {
    pub fn new(total: usize) -> Self {
        Self {
            total,
            done: 0,
            terminal: stdout().is_terminal(),
            shown: None,
        }
    }

    pub fn show(&mut self, done: usize) {
        self.done = done;
        let now = Instant::now();
        let recent = self.shown.is_some_and(|shown| now < shown + EVERY);
        if self.terminal && (!recent || done == self.total) {
            self.shown = Some(now);
            self.draw();
        }
    }

    /// A line above the bar.
    pub fn note(&self, text: &str) {
        if self.terminal {
            print!("\r\x1b[K");
        }
        println!("{text}");
        if self.terminal {
            self.draw();
        }
    }

    pub fn end(&self) {
        if self.terminal {
            println!();
        } else {
            println!("{}/{} files handled", self.done, self.total);
        }
    }

    fn draw(&self) {
        let filled = WIDTH * self.done / self.total.max(1);
        let bar = "#".repeat(filled) + &"-".repeat(WIDTH - filled);
        print!("\r[{bar}] {}/{}", self.done, self.total);
        // A terminal that has gone is no reason to stop.
        let _ = stdout().flush();
    }
}
