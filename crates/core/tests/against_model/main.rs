//! The queue does what the contract says: as a primary, as a replica, after every reload and every
//! failover. A plain model of the contract follows each step.

mod model;
mod random;
mod regressions;
mod releases;
mod world;
