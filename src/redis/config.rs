//! Numbers that an operator sets: `CONFIG GET` and `CONFIG SET` from 7.0 on.

use std::ffi::{c_char, c_int, c_longlong, c_void, CStr};
use std::ptr;
use std::sync::atomic::{AtomicI64, Ordering};

use redis_module::raw;

use super::context::Ctx;
use super::load::LoadError;

/// A number with its range. Reading it costs a plain load.
pub struct NumberSetting {
    /// The name after the module's prefix, as `lock-ms`.
    pub name: &'static CStr,
    /// The smallest value.
    pub min: i64,
    /// The largest value.
    pub max: i64,
    value: AtomicI64,
}

impl NumberSetting {
    /// A setting for a `static`.
    pub const fn new(name: &'static CStr, default: i64, min: i64, max: i64) -> NumberSetting {
        NumberSetting {
            name,
            min,
            max,
            value: AtomicI64::new(default),
        }
    }

    /// The value now.
    #[inline]
    pub fn value(&self) -> i64 {
        self.value.load(Ordering::Relaxed)
    }

    /// Sets the value; false when it is out of range.
    pub fn set(&self, value: i64) -> bool {
        let fits = (self.min..=self.max).contains(&value);
        if fits {
            self.value.store(value, Ordering::Relaxed);
        }
        fits
    }
}

/// Offers the settings to the server, with their values so far as defaults, and takes over what its
/// configuration file says. Servers before 7.0 have no settings of modules; the values stay.
pub fn register_numbers(ctx: &Ctx, settings: &[&'static NumberSetting]) -> Result<(), LoadError> {
    // SAFETY: reading function pointers that are written only at initialisation.
    let (register, load) = unsafe {
        (
            raw::RedisModule_RegisterNumericConfig,
            raw::RedisModule_LoadConfigs,
        )
    };
    let (Some(register), Some(load)) = (register, load) else {
        return Ok(());
    };
    for &setting in settings {
        // SAFETY: the context of `OnLoad`; the server copies the name; the data is a static of the
        // type that both callbacks expect.
        let registered = unsafe {
            register(
                ctx.raw(),
                setting.name.as_ptr(),
                setting.value(),
                raw::REDISMODULE_CONFIG_DEFAULT,
                setting.min,
                setting.max,
                Some(read),
                Some(write),
                None,
                ptr::from_ref(setting).cast_mut().cast(),
            )
        };
        if registered != raw::REDISMODULE_OK as c_int {
            return Err(LoadError::new(format!(
                "the server refused the config {:?}",
                setting.name
            )));
        }
    }
    // SAFETY: the context of `OnLoad`.
    if unsafe { load(ctx.raw()) } != raw::REDISMODULE_OK as c_int {
        return Err(LoadError::new(
            "a config mq.* of the server's configuration is not valid",
        ));
    }
    Ok(())
}

unsafe extern "C" fn read(_name: *const c_char, setting: *mut c_void) -> c_longlong {
    // SAFETY: the static that was registered with this callback.
    unsafe { &*setting.cast::<NumberSetting>() }.value()
}

unsafe extern "C" fn write(
    _name: *const c_char,
    value: c_longlong,
    setting: *mut c_void,
    _error: *mut *mut raw::RedisModuleString,
) -> c_int {
    // SAFETY: the static that was registered with this callback.
    let fits = unsafe { &*setting.cast::<NumberSetting>() }.set(value);
    let status = if fits {
        raw::REDISMODULE_OK
    } else {
        raw::REDISMODULE_ERR
    };
    status as c_int
}
