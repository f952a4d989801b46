//! What the counts of many queues are now and were lately, for a price that does not grow with
//! their number: all commands to the server share one budget, and queues are asked in turns.

mod board;
mod budget;
mod jobs;
mod link;
mod page;
mod row;
mod sampler;

pub use board::{Board, Shown};
pub use jobs::{Jobs, Progress};
pub use link::Link;
pub use page::page_of;
pub use row::{Order, Row};
pub use sampler::run;
