//! A replica: it gets effects, or the words of a client, and nothing else.

use redis_mq_core::{Queue, Replication, Span, Token};

use super::step;

pub struct Replica {
    pub queue: Queue,
}

/// What a client sent.
#[derive(Clone, Debug)]
pub enum Command {
    Enqueue {
        id: Option<Vec<u8>>,
        enqueue: step::Enqueue,
    },
    /// A server that serves a waiting client has no command to send on.
    Dequeue {
        count: usize,
        lock: Option<Span>,
        from_server: bool,
    },
    Done {
        id: Vec<u8>,
        token: u64,
    },
    Other,
}

impl Command {
    pub fn is_from_server(&self) -> bool {
        matches!(
            self,
            Self::Dequeue {
                from_server: true,
                ..
            }
        )
    }
}

impl Replica {
    pub fn new(seed: u64) -> Self {
        Self {
            queue: Queue::new(seed),
        }
    }

    pub fn receive(&mut self, command: &Command, replication: Replication<'_>) {
        match replication {
            Replication::Nothing => {}
            Replication::Effects(bytes) => {
                self.queue.apply(bytes).expect("effects fit the replica");
            }
            Replication::Verbatim => {
                let replayed = match command {
                    Command::Enqueue { id, enqueue } => {
                        self.queue.replay_enqueue(&enqueue.request(id.as_deref()))
                    }
                    Command::Dequeue {
                        from_server: true, ..
                    }
                    | Command::Other => {
                        panic!("no command that a replica could run")
                    }
                    Command::Dequeue { count, lock, .. } => {
                        self.queue.replay_dequeue(*count, *lock)
                    }
                    Command::Done { id, token } => self.queue.replay_done(id, Token::new(*token)),
                };
                replayed.expect("the client's words fit the replica");
            }
        }
    }
}
