//! Groups, limits and pauses: whose turn it is, who waits, and that a primary, its replica and a
//! reloaded queue agree on all of it after every step.

mod limits;
mod pair;
mod random;
mod turns;
