//! The plan of looks: which queue is to be looked after when. It knows no server and no clock; what
//! opens keys and sets the timer is `wake`.
//!
//! A queue holds the only way to its look, so there is one look for a queue at most, and it goes when
//! the queue goes. The plan orders the looks and nothing else: it has no table of names.

mod databases;
mod plan;

pub use databases::Databases;
pub use plan::{Class, Look, Place, Plan};
