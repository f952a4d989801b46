//! redis-mq: a message queue as a native module of Redis and Valkey.
//!
//! What the module offers stands in `offer`. A command goes from its file in `commands` to the
//! queue in `redis-mq-core`, and back through the thin layer over the server's API in `redis`.

use std::ffi::{c_int, CStr};

use redis_module::raw::{RedisModuleCtx, RedisModuleString};

use crate::redis::{Args, Ctx, LoadError, Options};

mod authority;
mod clock;
mod commands;
mod config;
mod consumers;
mod cron;
mod datatype;
mod delivery;
mod error;
mod eviction;
mod glob;
mod idle;
mod info;
mod looks;
mod parse;
mod record;
mod redis;
mod rest;
mod scratch;
mod stored;
mod turn;
mod waiting;
mod wake;

#[cfg(not(test))]
#[global_allocator]
static ALLOCATOR: redis::alloc::ServerAlloc = redis::alloc::ServerAlloc;

/// The module's name: `MODULE LIST`, `INFO mq`, `CONFIG GET mq.*`.
pub const NAME: &CStr = c"mq";

/// The module's version in `MODULE LIST`: two decimal digits each for minor and patch, as 100 for
/// 0.1.0 and 10203 for 1.2.3.
pub const VERSION: c_int = {
    let [major, minor, patch] = [
        env!("CARGO_PKG_VERSION_MAJOR"),
        env!("CARGO_PKG_VERSION_MINOR"),
        env!("CARGO_PKG_VERSION_PATCH"),
    ];
    version_part(major) * 10_000 + version_part(minor) * 100 + version_part(patch)
};

/// Everything the module has, in the order in which the server learns of it.
fn offer(ctx: &Ctx, args: Args<'_>) -> Result<(), LoadError> {
    ctx.set_options(Options {
        async_loading: true,
        atomic_slot_migration: true,
    });
    config::register(ctx, args)?;
    datatype::QUEUE_TYPE.register(ctx)?;
    ctx.register_commands(commands::COMMANDS)?;
    info::register(ctx)?;
    wake::register(ctx)?;
    redis::watch_other_modules(ctx);
    eviction::register(ctx);
    Ok(())
}

/// The entry point: the server calls it once, when it loads the library.
///
/// # Safety
///
/// Only for the server, which passes a context and `argc` arguments that live through the call.
#[no_mangle]
pub unsafe extern "C" fn RedisModule_OnLoad(
    ctx: *mut RedisModuleCtx,
    argv: *mut *mut RedisModuleString,
    argc: c_int,
) -> c_int {
    // SAFETY: the arguments are the server's own, and nothing of the module has run before.
    unsafe { redis::load(ctx, argv, argc, NAME, VERSION, offer) }
}

const fn version_part(digits: &str) -> c_int {
    let (digits, mut number, mut at) = (digits.as_bytes(), 0, 0);
    while at < digits.len() {
        number = number * 10 + (digits[at] - b'0') as c_int;
        at += 1;
    }
    number
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_version_reads_as_one_number() {
        assert_eq!(super::version_part("12"), 12);
        assert_eq!(super::VERSION, 100, "0.1.0");
    }
}
