//! What happens to single keys, by whatever command.

use std::ffi::{c_char, c_int, CStr};
use std::sync::atomic::{AtomicBool, Ordering};

use redis_module::raw;

use super::api::call;
use super::args::KeyName;
use super::context::Ctx;
use super::events::{subscribe, Event, EventHandler, EventKind};
use super::guard::guard;
use super::load::{self, LoadError};

/// Takes keyspace events.
pub trait KeyEventHandler {
    /// One event (`del`, `rename_to`, `copy_to`, `restore`, `loaded` …) on a key of the database that is
    /// selected in the context. The name must be copied to be kept, and nothing may be written.
    fn on_key_event(ctx: &Ctx, event: &CStr, key: KeyName<'_>);
}

/// Classes of keyspace events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyEvents(c_int);

impl KeyEvents {
    /// Commands that work on keys of any type: `del`, `rename_from`, `rename_to`, `copy_to`,
    /// `move_to`, `restore`, `expire` …
    pub const GENERIC: KeyEvents = KeyEvents(raw::REDISMODULE_NOTIFY_GENERIC);
    /// A key was read from a dump while loading.
    pub const LOADED: KeyEvents = KeyEvents(raw::REDISMODULE_NOTIFY_LOADED);
    /// Events of modules, the own ones too.
    pub const MODULE: KeyEvents = KeyEvents(raw::REDISMODULE_NOTIFY_MODULE);

    /// Both classes.
    pub const fn and(self, other: KeyEvents) -> KeyEvents {
        KeyEvents(self.0 | other.0)
    }
}

/// Whether another module is loaded, which may listen to notifications whatever the server's setting.
static OTHER_MODULES: AtomicBool = AtomicBool::new(true);

/// Whether anyone can hear a notification of a module: with the server's default nobody does, and a
/// notification that nobody hears still costs as much as a look-up of the key.
#[inline]
pub(in crate::redis) fn anyone_listens() -> bool {
    const CHANNELS: c_int =
        (raw::REDISMODULE_NOTIFY_KEYSPACE | raw::REDISMODULE_NOTIFY_KEYEVENT) as c_int;

    if OTHER_MODULES.load(Ordering::Relaxed) {
        return true;
    }
    // SAFETY: a function pointer that is written only at initialisation; it takes nothing.
    unsafe { raw::RedisModule_GetNotifyKeyspaceEvents }.is_none_or(|get| {
        // SAFETY: as above.
        let events = unsafe { get() };
        events & CHANNELS != 0 && events & raw::REDISMODULE_NOTIFY_MODULE as c_int != 0
    })
}

/// Learns at load whether this is the only module, and of those that come later.
pub fn watch_other_modules(ctx: &Ctx) {
    OTHER_MODULES.store(ctx.has_modules(), Ordering::Relaxed);
    subscribe::<OtherModules>(ctx, &[EventKind::ModuleChanged]);
}

struct OtherModules;

impl EventHandler for OtherModules {
    fn on_event(_ctx: &Ctx, event: Event) {
        if event == Event::ModuleChanged {
            OTHER_MODULES.store(true, Ordering::Relaxed);
        }
    }
}

impl Ctx {
    /// Whether the server lists any module; while this one is loading it is not among them. Also true
    /// if the server does not say.
    fn has_modules(&self) -> bool {
        self.call(c"MODULE", c"LIST", None)
            .and_then(|reply| reply.len())
            .is_none_or(|listed| listed != 0)
    }
}

/// Subscribes `H` to the classes of events; on some servers to fewer of them, so that they must only
/// make things prompt: see [`tells_of_renames`].
pub fn subscribe_keys<H: KeyEventHandler>(ctx: &Ctx, events: KeyEvents) -> Result<(), LoadError> {
    let harmless = KeyEvents::LOADED.and(KeyEvents::MODULE);
    let events = if tells_of_renames() {
        events.0
    } else {
        events.0 & harmless.0
    };
    // SAFETY: the context of `OnLoad`; classes that every supported server has.
    let subscribed = unsafe {
        call!(RedisModule_SubscribeToKeyspaceEvents(
            ctx.raw(),
            events,
            Some(on_key_event::<H>)
        ))
    };
    if subscribed == raw::REDISMODULE_OK as c_int {
        Ok(())
    } else {
        Err(LoadError::new(
            "the server refused a subscription to keyspace events",
        ))
    }
}

/// Whether [`KeyEvents::GENERIC`] is to be had, and with it `rename_to`, `copy_to`, `move_to` and `restore`.
///
/// Valkey from 8.1 on calls the handler on the running client, and before 9.1.2 leaves that client on
/// the event's database: after `COPY … DB n` or `MOVE` its next commands, and those of a primary on its
/// replica, would go to the wrong one. There only [`KeyEvents::LOADED`] and [`KeyEvents::MODULE`] are
/// subscribed, which no command but `DEBUG RELOAD` causes in another database than its client's.
pub fn tells_of_renames() -> bool {
    /// Valkey 9.1.2 as the server writes it; the first version without the fault.
    const REPAIRED: c_int = 0x09_01_02;

    // SAFETY: reading a function pointer that is written only at initialisation; it takes nothing.
    let version = unsafe { raw::RedisModule_GetServerVersion.map(|version| version()) };
    // Only Valkey from 8.1 on has this function.
    load::must_obey_client().is_none() || version.is_some_and(|version| version >= REPAIRED)
}

unsafe extern "C" fn on_key_event<H: KeyEventHandler>(
    ctx: *mut raw::RedisModuleCtx,
    _class: c_int,
    event: *const c_char,
    key: *mut raw::RedisModuleString,
) -> c_int {
    guard(|| {
        // SAFETY: context, event and key belong to the running callback and are used only within it.
        let (ctx, event, key) = unsafe {
            (
                Ctx::from_raw(ctx),
                CStr::from_ptr(event),
                KeyName::from_raw(key),
            )
        };
        H::on_key_event(&ctx, event, key);
    });
    raw::REDISMODULE_OK as c_int
}
