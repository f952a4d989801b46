//! The thin safe layer over the server's module API.
//!
//! Everything else in the module is safe code: `unsafe` lives here, each block with the reason why it
//! is sound. The wrappers of the hot path are inlined and add nothing to the call they wrap. What an
//! older server lacks is asked for once and skipped, never assumed.

pub mod alloc;
mod api;
mod args;
mod block;
mod boot;
mod borrow;
mod call;
mod config;
mod context;
mod defrag;
mod events;
mod guard;
mod info;
mod key;
mod keyspace;
mod load;
pub mod log;
mod native;
mod ownership;
mod park;
mod rdb;
mod register;
mod reply;
mod rights;
mod scan;
mod state;
mod timer;

pub use args::{Args, KeyName};
pub use block::{wait_on_keys, Blocked, Waiting};
pub use boot::since_boot_us;
pub use config::{register_numbers, NumberSetting};
pub use context::{Ctx, Role};
pub use defrag::Mover;
pub use events::{subscribe, Event, EventHandler, EventKind};
pub use info::{register_info, InfoSource, InfoWriter, ServerInfo};
pub use key::{ReadKey, WriteKey};
pub use keyspace::{
    subscribe_keys, tells_of_renames, watch_other_modules, KeyEventHandler, KeyEvents,
};
pub use load::{load, LoadError, Options};
pub use native::{NativeType, TypeHandle};
pub use park::{keeps_answers, park, Parked, Parking};
pub use rdb::{AofWriter, DigestWriter, IoError, RdbReader, RdbWriter};
pub use register::{Command, Registered};
pub use rights::Rights;
pub use scan::KeyScan;
pub use timer::{Alarm, Tick};
