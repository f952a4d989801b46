//! Loading the module into a server, whichever it is.

use std::cell::Cell;
use std::ffi::{c_int, c_void, CStr};
use std::fmt;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use redis_module::raw;

use super::api::{self, call};
use super::args::Args;
use super::context::Ctx;
use super::guard::{guard, install_panic_hook};
use super::{alloc, log};

/// Why the module cannot be loaded, for the server's log.
#[derive(Debug, PartialEq, Eq)]
pub struct LoadError(String);

/// What the module promises to the server.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// A slot may move in or out as a whole (Valkey 9): the module leaves keys of slots that are not
    /// its server's alone.
    pub atomic_slot_migration: bool,
    /// A replica may load a new data set beside the old one: no state of the module depends on which
    /// of them is "the" data set.
    pub async_loading: bool,
}

type MustObeyClient = unsafe extern "C" fn(*mut raw::RedisModuleCtx) -> c_int;

/// The server's own answer to "must this client be obeyed?"; null where there is none.
static MUST_OBEY_CLIENT: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());

/// Not in the bindings: Valkey's name for "slots may be migrated atomically".
const HANDLE_ATOMIC_SLOT_MIGRATION: c_int = 1 << 5;

/// The body of `RedisModule_OnLoad`: binds the server's functions, then lets `offer` register what
/// the module has. Whatever goes wrong is logged and refuses the load; it never ends the process.
///
/// # Safety
///
/// Must be called by the server as, or from, the module's entry point with that function's arguments,
/// before anything else of the module runs.
pub unsafe fn load(
    ctx: *mut raw::RedisModuleCtx,
    argv: *mut *mut raw::RedisModuleString,
    argc: c_int,
    name: &'static CStr,
    version: c_int,
    offer: fn(&Ctx, Args<'_>) -> Result<(), LoadError>,
) -> c_int {
    const REFUSED: c_int = raw::REDISMODULE_ERR as c_int;

    // SAFETY: the context of the entry point. Nothing is allocated before the server's allocator is
    // bound here and probed below.
    let bound = unsafe {
        raw::Export_RedisModule_Init(
            ctx,
            name.as_ptr(),
            version,
            raw::REDISMODULE_APIVER_1 as c_int,
        )
    };
    if bound != raw::REDISMODULE_OK as c_int {
        // All functions are bound, and Redis itself says nothing of the reason.
        log::warning(format_args!(
            "not loaded: there is a module of this name; is its loadmodule line there twice?"
        ));
        return REFUSED;
    }
    alloc::probe_alignment();
    log::keep_context(ctx);
    install_panic_hook();
    if let Some(function) = api::missing() {
        log::warning(format_args!(
            "not loaded: this server is too old, it has no {function}"
        ));
        return REFUSED;
    }
    // SAFETY: the API is bound, and nothing reads the pointer before.
    MUST_OBEY_CLIENT.store(unsafe { find_must_obey_client() }, Ordering::Relaxed);

    let loaded = guard(|| {
        let asked = Cell::new(0);
        // SAFETY: context and arguments of the entry point, used only within it.
        let (ctx, args) = unsafe { (Ctx::from_raw(ctx), Args::new(argv, argc, &asked)) };
        offer(&ctx, args)
    });
    match loaded {
        Some(Ok(())) => raw::REDISMODULE_OK as c_int,
        Some(Err(LoadError(why))) => {
            log::warning(format_args!("not loaded: {why}"));
            REFUSED
        }
        None => REFUSED,
    }
}

impl Ctx {
    /// Tells the server what the module can do. That it handles broken dumps, and signals changed
    /// keys itself, is always said: the wrappers of this layer rely on it.
    pub fn set_options(&self, options: Options) {
        let mut bits = (raw::REDISMODULE_OPTIONS_HANDLE_IO_ERRORS
            | raw::REDISMODULE_OPTION_NO_IMPLICIT_SIGNAL_MODIFIED) as c_int;
        if options.async_loading {
            bits |= raw::REDISMODULE_OPTIONS_HANDLE_REPL_ASYNC_LOAD as c_int;
        }
        if options.atomic_slot_migration {
            bits |= HANDLE_ATOMIC_SLOT_MIGRATION;
        }
        // SAFETY: the context of `OnLoad`; servers ignore bits that they do not know.
        unsafe { call!(RedisModule_SetModuleOptions(self.raw(), bits)) };
    }
}

/// The server's own test whether a client must be obeyed (Valkey 8.1 and later).
pub(in crate::redis) fn must_obey_client() -> Option<MustObeyClient> {
    let function = MUST_OBEY_CLIENT.load(Ordering::Relaxed);
    // SAFETY: not null only if the server gave this function by this name.
    (!function.is_null())
        .then(|| unsafe { std::mem::transmute::<*mut c_void, MustObeyClient>(function) })
}

/// # Safety
///
/// The API must be bound.
unsafe fn find_must_obey_client() -> *mut c_void {
    // SAFETY: reading a function pointer that is written only at initialisation.
    let Some(find) = (unsafe { raw::RedisModule_GetApi }) else {
        return ptr::null_mut();
    };
    for name in [
        c"RedisModule_MustObeyClient",
        c"ValkeyModule_MustObeyClient",
    ] {
        let mut function: *mut c_void = ptr::null_mut();
        // SAFETY: the function writes one pointer, where it knows the name.
        let found = unsafe { find(name.as_ptr(), ptr::from_mut(&mut function).cast()) };
        if found == raw::REDISMODULE_OK as c_int && !function.is_null() {
            return function;
        }
    }
    ptr::null_mut()
}

impl LoadError {
    /// An error with its reason, one line.
    pub fn new(why: impl Into<String>) -> LoadError {
        LoadError(why.into())
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
