//! The context of a callback: who called, what the time is, and what the server is to do next.

use std::ffi::{c_int, CStr};
use std::ptr::NonNull;

use redis_module::raw;

use super::api::call;
use super::args::KeyName;
use super::{borrow, keyspace, load};

/// The server's context during one callback. It cannot be kept: it is neither `Clone` nor `Send`.
pub struct Ctx {
    raw: NonNull<raw::RedisModuleCtx>,
}

/// What the server says about itself and the calling client, read at one instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags(c_int);

/// Whether this server decides, or repeats what another one decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The server that accepts writes.
    Primary,
    /// A copy that follows a primary.
    Replica,
}

impl Ctx {
    /// # Safety
    ///
    /// `ctx` must be the context of the running callback, and the result must not outlive it.
    #[inline]
    pub(in crate::redis) unsafe fn from_raw(ctx: *mut raw::RedisModuleCtx) -> Ctx {
        // SAFETY: the server never passes a null context to the callbacks that get one.
        let raw = unsafe { NonNull::new_unchecked(ctx) };
        Ctx { raw }
    }

    #[inline]
    pub(in crate::redis) fn raw(&self) -> *mut raw::RedisModuleCtx {
        self.raw.as_ptr()
    }

    /// The server's clock in Unix microseconds, the same instant for the whole of a command where the
    /// server keeps one (7.2 and later, a plain load), else read anew and exact to the millisecond: read
    /// it once per command.
    ///
    /// It may lie a little behind the real clock outside of commands. Only [`clock`](crate::clock) asks
    /// for it: the system's clock may be set at any time, and no queue goes by it.
    #[inline]
    pub(crate) fn command_time_us(&self) -> u64 {
        // SAFETY: the pointers are written only at initialisation; the functions take nothing.
        let now = unsafe {
            match raw::RedisModule_CachedMicroseconds {
                Some(cached) => cached(),
                None => call!(RedisModule_Milliseconds()) * 1000,
            }
        };
        // A clock before 1970 counts as 1970.
        u64::try_from(now).unwrap_or(0)
    }

    /// The server's clock in Unix microseconds, read now; exact to the millisecond before 7.2.
    #[inline]
    pub(crate) fn system_time_us(&self) -> u64 {
        // SAFETY: the pointers are written only at initialisation; the functions take nothing.
        let now = unsafe {
            match raw::RedisModule_Microseconds {
                Some(clock) => clock(),
                None => call!(RedisModule_Milliseconds()) * 1000,
            }
        };
        u64::try_from(now).unwrap_or(0)
    }

    /// The flags of server and client. Not free (the server looks at its memory too): not for commands
    /// that do not need them.
    #[inline]
    pub fn flags(&self) -> Flags {
        // SAFETY: a live context.
        Flags(unsafe { call!(RedisModule_GetContextFlags(self.raw())) })
    }

    /// Whether the server is part of a cluster.
    pub fn is_cluster(&self) -> bool {
        self.flags().is_cluster()
    }

    /// The id of the calling client; 0 where there is none, as in a timer.
    #[inline]
    pub fn client_id(&self) -> u64 {
        // SAFETY: a live context.
        unsafe { call!(RedisModule_GetClientId(self.raw())) }
    }

    /// Whether the command comes from the primary, the append-only file or a slot that is moving in:
    /// then it has been decided already and must be obeyed without judging it again.
    pub fn must_obey(&self) -> bool {
        self.must_obey_by(self.flags())
    }

    /// The same, where the flags have been asked for already.
    pub fn must_obey_by(&self, flags: Flags) -> bool {
        /// The id of the client that replays the append-only file.
        const APPEND_ONLY_FILE: u64 = u64::MAX;

        // While a replica loads beside its old data it still answers ordinary clients.
        let replaying = flags.has(raw::REDISMODULE_CTX_FLAGS_LOADING)
            && !flags.has(raw::REDISMODULE_CTX_FLAGS_ASYNC_LOADING);
        flags.has(raw::REDISMODULE_CTX_FLAGS_REPLICATED)
            || replaying
            || self.client_id() == APPEND_ONLY_FILE
            // SAFETY: a live context, and the function that the server named so.
            || load::must_obey_client().is_some_and(|obey| unsafe { obey(self.raw()) } != 0)
    }

    /// The database the context works on.
    #[inline]
    pub fn selected_db(&self) -> i32 {
        // SAFETY: a live context.
        unsafe { call!(RedisModule_GetSelectedDb(self.raw())) }
    }

    /// Makes the context work on another database; false when there is no such database.
    pub fn select_db(&self, db: i32) -> bool {
        // SAFETY: a live context; the server refuses a number out of range.
        unsafe { call!(RedisModule_SelectDb(self.raw(), db)) == raw::REDISMODULE_OK as c_int }
    }

    /// Sends `command key effect` to the replicas and the append-only file, after what this callback
    /// has sent before. `command` must be a registered command.
    #[inline]
    pub fn replicate(&self, command: &CStr, key: KeyName<'_>, effect: &[u8]) {
        // SAFETY: the format "sb" takes a string of the server, then a buffer and its length as size_t.
        unsafe {
            call!(RedisModule_Replicate(
                self.raw(),
                command.as_ptr(),
                c"sb".as_ptr(),
                key.raw(),
                effect.as_ptr(),
                effect.len(),
            ));
        }
    }

    /// Sends the deletion of the key to the replicas and the append-only file. False where the server
    /// knows no such command, as one that an operator renamed: then they keep the key.
    #[must_use]
    pub fn replicate_deletion(&self, key: KeyName<'_>) -> bool {
        [c"DEL", c"UNLINK"].into_iter().any(|command| {
            // SAFETY: the format "s" takes a string of the server.
            let sent = unsafe {
                call!(RedisModule_Replicate(
                    self.raw(),
                    command.as_ptr(),
                    c"s".as_ptr(),
                    key.raw(),
                ))
            };
            sent == raw::REDISMODULE_OK as c_int
        })
    }

    /// Sends the command just as the client wrote it. Only for commands whose outcome depends on
    /// neither clock, chance nor choice.
    #[inline]
    pub fn replicate_verbatim(&self) {
        // SAFETY: a live context.
        unsafe { call!(RedisModule_ReplicateVerbatim(self.raw())) };
    }

    /// Publishes a keyspace notification of class `d`, as `mq.enqueue`. No key may be open: other
    /// modules' handlers run at once, and they may change or delete it.
    #[inline]
    pub fn notify(&self, event: &CStr, key: KeyName<'_>) {
        if !keyspace::anyone_listens() {
            return;
        }
        self.notify_of(raw::REDISMODULE_NOTIFY_MODULE, event, key);
    }

    /// Publishes the server's own event `del`, of class `g`, for a key that the module has deleted. No key
    /// may be open, as in [`Ctx::notify`].
    pub fn notify_deletion(&self, key: KeyName<'_>) {
        self.notify_of(raw::REDISMODULE_NOTIFY_GENERIC, c"del", key);
    }

    #[inline]
    fn notify_of(&self, class: c_int, event: &CStr, key: KeyName<'_>) {
        debug_assert!(
            borrow::is_free(),
            "a notification while a value is borrowed"
        );
        // SAFETY: a live context, a NUL-terminated event and a live string.
        unsafe {
            call!(RedisModule_NotifyKeyspaceEvent(
                self.raw(),
                class,
                event.as_ptr(),
                key.raw(),
            ));
        }
    }

    /// Tells the server that the key's value changed: `WATCH` and client-side caches depend on it. The
    /// module does so for real changes only; opening a key for writing signals nothing.
    #[inline]
    pub fn signal_modified(&self, key: KeyName<'_>) {
        // SAFETY: a live context and a live string.
        unsafe { call!(RedisModule_SignalModifiedKey(self.raw(), key.raw())) };
    }

    /// Whether the server must send nothing to its replicas now, because writes are paused for a
    /// failover. A timer that wrote then would end the process.
    #[inline]
    pub fn must_not_replicate(&self) -> bool {
        // SAFETY: the pointer is written only at initialisation; the function takes nothing.
        unsafe { raw::RedisModule_AvoidReplicaTraffic.is_some_and(|avoid| avoid() != 0) }
    }

    /// Runs `body` with a name of a key that is made from bytes, for keys that no argument names.
    pub fn with_key_name<R>(&self, name: &[u8], body: impl FnOnce(KeyName<'_>) -> R) -> R {
        /// Frees the string also when `body` panics.
        struct Owned<'c>(&'c Ctx, *mut raw::RedisModuleString);
        impl Drop for Owned<'_> {
            fn drop(&mut self) {
                // SAFETY: made below with the same context and freed once.
                unsafe { call!(RedisModule_FreeString(self.0.raw(), self.1)) };
            }
        }
        // SAFETY: the server copies the bytes.
        let string = unsafe {
            call!(RedisModule_CreateString(
                self.raw(),
                name.as_ptr().cast(),
                name.len()
            ))
        };
        let owned = Owned(self, string);
        // SAFETY: the string lives until `owned` is dropped, after `body`.
        body(unsafe { KeyName::from_raw(owned.1) })
    }
}

impl Flags {
    fn has(self, flag: u32) -> bool {
        // All flags fit into the positive half of the int.
        self.0 & flag as c_int != 0
    }

    /// Primary or replica.
    pub fn role(self) -> Role {
        if self.has(raw::REDISMODULE_CTX_FLAGS_SLAVE) {
            Role::Replica
        } else {
            Role::Primary
        }
    }

    /// Whether the command comes from the primary just now, not from a file.
    pub fn is_of_primary(self) -> bool {
        self.has(raw::REDISMODULE_CTX_FLAGS_REPLICATED)
            && self.role() == Role::Replica
            && !self.has(raw::REDISMODULE_CTX_FLAGS_LOADING)
    }

    /// Whether a data set is being loaded.
    pub fn is_loading(self) -> bool {
        self.has(raw::REDISMODULE_CTX_FLAGS_LOADING)
            || self.has(raw::REDISMODULE_CTX_FLAGS_ASYNC_LOADING)
    }

    /// Whether the client must not be made to wait: inside MULTI, a script or another module's call.
    pub fn denies_blocking(self) -> bool {
        self.has(raw::REDISMODULE_CTX_FLAGS_DENY_BLOCKING)
            || self.has(raw::REDISMODULE_CTX_FLAGS_MULTI)
            || self.has(raw::REDISMODULE_CTX_FLAGS_LUA)
    }

    /// Whether the server would refuse a command that needs memory.
    pub fn is_out_of_memory(self) -> bool {
        self.has(raw::REDISMODULE_CTX_FLAGS_OOM)
    }

    /// Whether the server may evict keys when memory runs out.
    pub fn may_evict(self) -> bool {
        self.has(raw::REDISMODULE_CTX_FLAGS_EVICT)
    }

    /// Whether the server is part of a cluster.
    pub fn is_cluster(self) -> bool {
        self.has(raw::REDISMODULE_CTX_FLAGS_CLUSTER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_and_a_transaction_are_seen_in_the_flags() {
        let flags =
            Flags((raw::REDISMODULE_CTX_FLAGS_SLAVE | raw::REDISMODULE_CTX_FLAGS_MULTI) as c_int);
        assert_eq!(flags.role(), Role::Replica);
        assert!(!flags.is_of_primary(), "nobody said so");
        assert!(flags.denies_blocking() && !flags.is_loading());
        assert_eq!(
            Flags(raw::REDISMODULE_CTX_FLAGS_MASTER as c_int).role(),
            Role::Primary
        );
    }
}
