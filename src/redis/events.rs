//! What happens to the server as a whole.

use std::ffi::{c_void, CStr};

use redis_module::raw;

use super::api::call;
use super::context::{Ctx, Role};
use super::guard::guard;

/// Takes server events.
pub trait EventHandler {
    /// One event. The database selected in the context is not to be relied on.
    fn on_event(ctx: &Ctx, event: Event);
}

/// The kinds of events that can be subscribed to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventKind {
    /// [`Event::RoleChanged`]
    RoleChanged,
    /// [`Event::PrimaryLink`]
    PrimaryLink,
    /// [`Event::Loading`]
    Loading,
    /// [`Event::SwapDb`]
    SwapDb,
    /// [`Event::AsyncLoading`]
    AsyncLoading,
    /// [`Event::Cron`]
    Cron,
    /// [`Event::ConfigChanged`]
    ConfigChanged,
    /// [`Event::ModuleChanged`]
    ModuleChanged,
}

/// Where a longer affair of the server stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It begins.
    Started,
    /// It is done.
    Ended,
    /// It was given up.
    Failed,
}

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The server is now a primary or a replica.
    RoleChanged(Role),
    /// The link of a replica to its primary is up, with or without a new data set, or is lost.
    PrimaryLink,
    /// The data set is replaced by one from a file or from the primary.
    Loading(Phase),
    /// Two databases have changed places.
    SwapDb(i32, i32),
    /// A replica loads a new data set beside the old one; `Ended` puts the new one into place.
    AsyncLoading(Phase),
    /// The server's periodic work, about `hz` times a second.
    Cron,
    /// An operator has set something, from 7.0 on.
    ConfigChanged,
    /// Another module was loaded or unloaded.
    ModuleChanged,
}

/// Subscribes `H` to events. A kind that the server does not have never happens there.
pub fn subscribe<H: EventHandler>(ctx: &Ctx, kinds: &[EventKind]) {
    for kind in kinds {
        let event = raw::RedisModuleEvent {
            id: kind.id(),
            dataver: 1,
        };
        // SAFETY: the context of `OnLoad`. An unknown event is refused by the return value.
        unsafe {
            call!(RedisModule_SubscribeToServerEvent(
                ctx.raw(),
                event,
                Some(on_event::<H>)
            ))
        };
    }
}

impl EventKind {
    fn id(self) -> u64 {
        match self {
            EventKind::RoleChanged => raw::REDISMODULE_EVENT_REPLICATION_ROLE_CHANGED,
            EventKind::PrimaryLink => raw::REDISMODULE_EVENT_MASTER_LINK_CHANGE,
            EventKind::Loading => raw::REDISMODULE_EVENT_LOADING,
            EventKind::SwapDb => raw::REDISMODULE_EVENT_SWAPDB,
            EventKind::AsyncLoading => raw::REDISMODULE_EVENT_REPL_ASYNC_LOAD,
            EventKind::Cron => raw::REDISMODULE_EVENT_CRON_LOOP,
            EventKind::ConfigChanged => raw::REDISMODULE_EVENT_CONFIG,
            EventKind::ModuleChanged => raw::REDISMODULE_EVENT_MODULE_CHANGE,
        }
    }
}

unsafe extern "C" fn on_event<H: EventHandler>(
    ctx: *mut raw::RedisModuleCtx,
    event: raw::RedisModuleEvent,
    subevent: u64,
    data: *mut c_void,
) {
    guard(|| {
        // SAFETY: the server passes the data that belongs to the event.
        if let Some(event) = unsafe { decode(event.id, subevent, data) } {
            // SAFETY: the context of the running callback, used only within it.
            let ctx = unsafe { Ctx::from_raw(ctx) };
            H::on_event(&ctx, event);
        }
    });
}

/// # Safety
///
/// `data` must be what the server passes with the event `id`.
unsafe fn decode(id: u64, subevent: u64, data: *mut c_void) -> Option<Event> {
    let event = match id {
        raw::REDISMODULE_EVENT_REPLICATION_ROLE_CHANGED => Event::RoleChanged(match subevent {
            raw::REDISMODULE_EVENT_REPLROLECHANGED_NOW_MASTER => Role::Primary,
            raw::REDISMODULE_EVENT_REPLROLECHANGED_NOW_REPLICA => Role::Replica,
            _ => return None,
        }),
        raw::REDISMODULE_EVENT_MASTER_LINK_CHANGE => Event::PrimaryLink,
        raw::REDISMODULE_EVENT_LOADING => Event::Loading(match subevent {
            raw::REDISMODULE_SUBEVENT_LOADING_RDB_START
            | raw::REDISMODULE_SUBEVENT_LOADING_AOF_START
            | raw::REDISMODULE_SUBEVENT_LOADING_REPL_START => Phase::Started,
            raw::REDISMODULE_SUBEVENT_LOADING_ENDED => Phase::Ended,
            raw::REDISMODULE_SUBEVENT_LOADING_FAILED => Phase::Failed,
            _ => return None,
        }),
        raw::REDISMODULE_EVENT_SWAPDB => {
            // SAFETY: a swap event brings this structure.
            let swap = unsafe { data.cast::<raw::RedisModuleSwapDbInfoV1>().as_ref() }?;
            Event::SwapDb(swap.dbnum_first, swap.dbnum_second)
        }
        raw::REDISMODULE_EVENT_REPL_ASYNC_LOAD => Event::AsyncLoading(match subevent {
            raw::REDISMODULE_SUBEVENT_REPL_ASYNC_LOAD_STARTED => Phase::Started,
            raw::REDISMODULE_SUBEVENT_REPL_ASYNC_LOAD_ABORTED => Phase::Failed,
            raw::REDISMODULE_SUBEVENT_REPL_ASYNC_LOAD_COMPLETED => Phase::Ended,
            _ => return None,
        }),
        raw::REDISMODULE_EVENT_CRON_LOOP => Event::Cron,
        raw::REDISMODULE_EVENT_CONFIG => Event::ConfigChanged,
        raw::REDISMODULE_EVENT_MODULE_CHANGE => {
            // SAFETY: an event of a module brings this structure, with a NUL-terminated name.
            let change = unsafe { data.cast::<raw::RedisModuleModuleChangeV1>().as_ref() }?;
            // SAFETY: as above.
            if unsafe { CStr::from_ptr(change.module_name) } == crate::NAME {
                return None;
            }
            Event::ModuleChanged
        }
        _ => return None,
    };
    Some(event)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr;

    #[test]
    fn an_unknown_event_is_no_event() {
        // SAFETY: events without data.
        unsafe {
            assert_eq!(decode(999, 0, ptr::null_mut()), None);
            assert_eq!(
                decode(raw::REDISMODULE_EVENT_LOADING, 99, ptr::null_mut()),
                None
            );
        }
    }
}
