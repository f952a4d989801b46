//! `redis-mq top`.

mod app;
mod detail;
mod draw;
#[cfg(test)]
mod tests;

use std::{io::IsTerminal as _, sync::Arc, time::Duration};

use ratatui::{
    crossterm::event::{self, Event},
    DefaultTerminal,
};
use redis_mq_client::redis::{self, Cmd};
use tokio::{
    signal::unix::{signal, SignalKind},
    sync::mpsc::{unbounded_channel, UnboundedSender},
    time::{interval, MissedTickBehavior},
};

use self::app::{App, Wish};
use super::ls;
use crate::{
    connect::Source,
    failure::{Exit, Failure},
    reply::Fields,
    sample::{self, Board, Jobs, Link},
};

/// How often the screen is drawn when nobody presses a key.
const TICK: Duration = Duration::from_millis(500);

/// Watch the queues live, in a terminal.
///
/// Depth, rates, what is being worked on, ages, times and dead letters of every queue; Enter shows one
/// with its next messages, groups and letters, `?` lists the keys.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only queues whose name contains this; `/` changes it
    #[arg(default_value = "")]
    find: String,
    /// At most so many commands a second to the server, whatever the number of queues
    #[arg(long, value_name = "N", default_value_t = 10,
          value_parser = clap::value_parser!(u32).range(1..=1_000))]
    budget: u32,
}

/// What comes to the loop from elsewhere.
enum News {
    Event(Event),
    Detail(detail::Detail),
    Told(String),
}

/// Shows them until somebody has seen enough.
pub async fn run(args: Args, source: Source) -> Result<Exit, Failure> {
    if !(std::io::stdin().is_terminal() && std::io::stdout().is_terminal()) {
        return Err(Failure::usage(
            "top needs a terminal; `ls --json` is for programs",
        ));
    }
    let place = source.shown();
    let link = Arc::new(Link::new(source, args.budget as usize, false));
    // A wrong password or a missing server are told as by any other command.
    match link.ask(&redis::cmd("MQ.HELP")).await {
        Err(failure) if !failure.begins_with("the user of this connection may not") => {
            return Err(failure);
        }
        // Who may not ask for help may still look.
        _ => {}
    }
    let board = Arc::new(Board::default());
    let sampling = tokio::spawn(sample::run(link.clone(), board.clone()));
    let mut terminal =
        ratatui::try_init().map_err(|error| Failure::local("the terminal", &error))?;
    let screen = Screen {
        app: App::new(place, args.find),
        link,
        board,
        jobs: Arc::default(),
    };
    let ended = screen.run(&mut terminal).await;
    ratatui::restore();
    sampling.abort();
    ended
}

struct Screen {
    app: App,
    link: Arc<Link>,
    board: Arc<Board>,
    jobs: Arc<Jobs>,
}

impl Screen {
    async fn run(mut self, terminal: &mut DefaultTerminal) -> Result<Exit, Failure> {
        let local = |error: std::io::Error| Failure::local("the terminal", &error);
        let (tell, mut news) = unbounded_channel();
        let events = tell.clone();
        // It reads until the program ends: a read of a terminal cannot be given up.
        std::thread::spawn(move || {
            while let Ok(event) = event::read() {
                if events.send(News::Event(event)).is_err() {
                    break;
                }
            }
        });
        let mut terminate = signal(SignalKind::terminate()).map_err(local)?;
        let mut tick = interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            self.renew(&tell);
            terminal
                .draw(|frame| draw::draw(frame, &mut self.app))
                .map_err(local)?;
            for name in self.app.visible() {
                self.board.watch(name);
            }
            tokio::select! {
                _ = terminate.recv() => return Ok(Exit::OK),
                _ = tick.tick() => {}
                Some(one) = news.recv() => match one {
                    News::Event(Event::Key(key)) => match self.app.key(key) {
                        Wish::Nothing => {}
                        Wish::Quit => return Ok(Exit::OK),
                        wish => self.grant(wish, &tell),
                    },
                    // A new size is seen when it is drawn.
                    News::Event(_) => {}
                    News::Detail(detail) => self.app.detail_came(detail),
                    News::Told(line) => self.app.note = Some(line),
                }
            }
        }
    }

    /// Brings what is shown up to date.
    fn renew(&mut self, tell: &UnboundedSender<News>) {
        let app = &mut self.app;
        app.rows_came(self.board.all(&app.find, app.order, app.reverse));
        app.error = self.board.error();
        if let Some((queue, _)) = &app.open {
            app.job = self.jobs.of(queue);
            app.row = self.board.watch(queue);
        }
        if let Some(wanted) = app.wanted_detail() {
            let (link, tell) = (self.link.clone(), tell.clone());
            tokio::spawn(async move {
                // The loop may be over.
                let _ = tell.send(News::Detail(detail::ask(&link, wanted).await));
            });
        }
    }

    fn grant(&self, wish: Wish, tell: &UnboundedSender<News>) {
        let (link, board, jobs) = (self.link.clone(), self.board.clone(), self.jobs.clone());
        let tell = tell.clone();
        tokio::spawn(async move {
            let done = match &wish {
                Wish::Pause(queue) => link.change(&about("MQ.PAUSE", queue)).await.map(drop),
                Wish::Resume(queue) => link.change(&about("MQ.RESUME", queue)).await.map(drop),
                Wish::Redrive(queue, count) => {
                    let name = queue.clone();
                    let step = move |step: u64| {
                        let mut command = about("MQ.REDRIVE", &name);
                        command.arg("COUNT").arg(step);
                        command
                    };
                    let started = jobs.start(queue, "sent again", *count, link.clone(), step);
                    let started = started.await;
                    let line = jobs.of(queue).map(|job| job.to_string());
                    let _ = tell.send(News::Told(line.unwrap_or_default()));
                    started
                }
                Wish::Nothing | Wish::Quit => Ok(()),
            };
            if let Err(failure) = done {
                let line = failure.line().unwrap_or_default().to_owned();
                let _ = tell.send(News::Told(line));
            }
            // What was done is seen at once.
            if let Some(queue) = wish.queue() {
                let info = link.ask(&ls::ask(queue)).await;
                if let Some(info) = info.ok().as_ref().and_then(Fields::read) {
                    board.sampled(queue, info, std::time::Instant::now());
                }
            }
        });
    }
}

fn about(name: &str, queue: &[u8]) -> Cmd {
    let mut command = redis::cmd(name);
    command.arg(queue);
    command
}
