//! What the fuzz targets do with their bytes. The tests of the core and of the module replay the kept
//! inputs through the same functions.

pub mod arguments;
pub mod effects;
pub mod operations;
pub mod pair;
pub mod pieces;
pub mod snapshot;

/// What the module's sources take from its root.
pub const NAME: &std::ffi::CStr = c"mq";

// The module is a library for servers only, and its allocator asks the server for memory: so its
// sources are compiled in here, without its entry point and its allocator.
#[path = "../../src/authority.rs"]
pub mod authority;
#[path = "../../src/clock/mod.rs"]
pub mod clock;
#[path = "../../src/commands/mod.rs"]
pub mod commands;
#[path = "../../src/config.rs"]
pub mod config;
#[path = "../../src/cron/mod.rs"]
pub mod cron;
#[path = "../../src/datatype.rs"]
pub mod datatype;
#[path = "../../src/error.rs"]
pub mod error;
#[path = "../../src/glob.rs"]
pub mod glob;
#[path = "../../src/idle.rs"]
pub mod idle;
#[path = "../../src/info.rs"]
pub mod info;
#[path = "../../src/looks/mod.rs"]
mod looks;
#[path = "../../src/parse.rs"]
pub mod parse;
#[path = "../../src/record.rs"]
pub mod record;
#[path = "../../src/redis/mod.rs"]
pub mod redis;
#[path = "../../src/rest.rs"]
pub mod rest;
#[path = "../../src/scratch.rs"]
mod scratch;
#[path = "../../src/stored.rs"]
pub mod stored;
#[path = "../../src/turn.rs"]
pub mod turn;
#[path = "../../src/waiting/mod.rs"]
pub mod waiting;
#[path = "../../src/wake/mod.rs"]
pub mod wake;

// The model tests use all of these, the target a part.
#[allow(dead_code)]
#[path = "../../crates/core/tests/against_model/model/mod.rs"]
mod model;
#[allow(dead_code)]
#[path = "../../crates/core/tests/against_model/world/mod.rs"]
mod world;
