//! Which functions of the server the module cannot live without, and how they are called.
//!
//! The bindings hold every function as an `Option`, empty where the server is too old. The required
//! ones are checked once at load, so a call costs no test; the others are matched where they are used.

use redis_module::raw;

/// Calls a required function. Must be used inside `unsafe`: besides the function's own contract the
/// caller relies on [`missing`] having returned `None` at load, before any callback could run.
macro_rules! call {
    ($name:ident($($arg:expr),* $(,)?)) => {{
        let () = $crate::redis::api::listed::$name;
        (redis_module::raw::$name).unwrap_unchecked()($($arg),*)
    }};
}
pub(in crate::redis) use call;

macro_rules! required {
    ($($name:ident,)*) => {
        /// One constant for each required function, so that [`call!`] compiles for these only.
        #[allow(non_upper_case_globals)]
        pub(in crate::redis) mod listed {
            $(pub(in crate::redis) const $name: () = ();)*
        }

        /// The first required function that this server does not have.
        pub(in crate::redis) fn missing() -> Option<&'static str> {
            $(
                // SAFETY: the pointers are written once, by the API initialisation that precedes
                // this call on the same thread, and only read afterwards.
                if unsafe { raw::$name }.is_none() {
                    return Some(stringify!($name));
                }
            )*
            None
        }
    };
}

required! {
    RedisModule_BlockClient,
    RedisModule_BlockClientOnKeys,
    RedisModule_BlockedClientDisconnected,
    RedisModule_CloseKey,
    RedisModule_CreateCommand,
    RedisModule_CreateDataType,
    RedisModule_CreateString,
    RedisModule_CreateTimer,
    RedisModule_DeleteKey,
    RedisModule_DigestAddStringBuffer,
    RedisModule_DigestEndSequence,
    RedisModule_EmitAOF,
    RedisModule_Free,
    RedisModule_FreeString,
    RedisModule_GetBlockedClientHandle,
    RedisModule_GetBlockedClientPrivateData,
    RedisModule_GetBlockedClientReadyKey,
    RedisModule_GetClientId,
    RedisModule_GetContextFlags,
    RedisModule_GetSelectedDb,
    RedisModule_IsIOError,
    RedisModule_IsKeysPositionRequest,
    RedisModule_KeyAtPos,
    RedisModule_KeyType,
    RedisModule_LoadStringBuffer,
    RedisModule_LogIOError,
    RedisModule_Milliseconds,
    RedisModule_ModuleTypeGetType,
    RedisModule_ModuleTypeGetValue,
    RedisModule_ModuleTypeSetValue,
    RedisModule_NotifyKeyspaceEvent,
    RedisModule_OpenKey,
    RedisModule_RegisterInfoFunc,
    RedisModule_Replicate,
    RedisModule_ReplicateVerbatim,
    RedisModule_ReplySetArrayLength,
    RedisModule_ReplyWithArray,
    RedisModule_ReplyWithError,
    RedisModule_ReplyWithLongLong,
    RedisModule_ReplyWithNull,
    RedisModule_ReplyWithNullArray,
    RedisModule_ReplyWithSimpleString,
    RedisModule_ReplyWithStringBuffer,
    RedisModule_SaveStringBuffer,
    RedisModule_Scan,
    RedisModule_ScanCursorCreate,
    RedisModule_ScanCursorDestroy,
    RedisModule_ScanCursorRestart,
    RedisModule_SelectDb,
    RedisModule_SetDisconnectCallback,
    RedisModule_SetModuleOptions,
    RedisModule_SignalModifiedKey,
    RedisModule_StopTimer,
    RedisModule_StringPtrLen,
    RedisModule_SubscribeToKeyspaceEvents,
    RedisModule_SubscribeToServerEvent,
    RedisModule_UnblockClient,
    RedisModule_WrongArity,
}
