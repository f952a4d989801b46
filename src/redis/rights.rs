//! What the rights of a client's user allow.

use std::ffi::c_int;

use redis_module::raw;

use super::api::call;
use super::args::{bytes, Args};
use super::context::Ctx;
use crate::parse::ArgList;

/// A command and the user who sent it, kept to be judged again when there is no client at hand.
#[derive(Debug)]
pub struct Rights {
    /// None where the server does not tell, before 7.0.
    user: Option<Box<[u8]>>,
    args: Box<[Box<[u8]>]>,
}

impl Rights {
    /// Those of the calling client for its command.
    pub fn of(ctx: &Ctx, args: Args<'_>) -> Rights {
        // SAFETY: a function pointer that is written only at initialisation, the live context of a
        // client's command, and a string that is freed once, after it was copied.
        let user = unsafe {
            raw::RedisModule_GetCurrentUserName.map(|name_of| {
                let name = name_of(ctx.raw());
                let copy = bytes(name).into();
                call!(RedisModule_FreeString(ctx.raw(), name));
                copy
            })
        };
        let args = (0..args.len()).filter_map(|at| args.at(at));
        Rights {
            args: args.map(Box::from).collect(),
            user,
        }
    }

    /// Whether the user may run the command now. Servers before 7.0 do not tell: there, true.
    pub fn suffice(&self, ctx: &Ctx) -> bool {
        let Some(user) = &self.user else {
            return true;
        };
        let string = |bytes: &[u8]| {
            // SAFETY: a live context; the server copies the bytes.
            unsafe {
                call!(RedisModule_CreateString(
                    ctx.raw(),
                    bytes.as_ptr().cast(),
                    bytes.len()
                ))
            }
        };
        let name = string(user);
        let args: Vec<_> = self.args.iter().map(|arg| string(arg)).collect();
        // SAFETY: strings that were just made; each is freed once.
        unsafe {
            let may = may_run(name, &args);
            for string in args.into_iter().chain([name]) {
                call!(RedisModule_FreeString(ctx.raw(), string));
            }
            may
        }
    }
}

impl Ctx {
    /// Whether the user of the callback's client may run the command `args` on its keys, by the rights
    /// that the user has now. Servers before 7.0 do not tell: there, true.
    ///
    /// Only where the context belongs to a client, as in the callbacks of one that waits.
    pub fn user_may(&self, args: Args<'_>) -> bool {
        // SAFETY: a function pointer that is written only at initialisation, a live context with a client,
        // and the arguments of its command. The name is freed once.
        unsafe {
            let Some(name_of) = raw::RedisModule_GetCurrentUserName else {
                return true;
            };
            let name = name_of(self.raw());
            let may = may_run(name, args.raw());
            call!(RedisModule_FreeString(self.raw(), name));
            may
        }
    }
}

/// Whether the user of that name may run the command `argv` on its keys now. Servers before 7.0 do not
/// tell: there, true.
///
/// # Safety
///
/// `name` and `argv` must be strings of the server.
unsafe fn may_run(name: *mut raw::RedisModuleString, argv: &[*mut raw::RedisModuleString]) -> bool {
    // SAFETY: function pointers that are written only at initialisation, and the caller's contract. The
    // user is freed once; the server does not write to `argv`.
    unsafe {
        let (Some(find), Some(check), Some(free)) = (
            raw::RedisModule_GetModuleUserFromUserName,
            raw::RedisModule_ACLCheckCommandPermissions,
            raw::RedisModule_FreeModuleUser,
        ) else {
            return true;
        };
        let user = find(name);
        if user.is_null() {
            return false;
        }
        let allowed = check(user, argv.as_ptr().cast_mut(), argv.len() as c_int);
        free(user);
        allowed == raw::REDISMODULE_OK as c_int
    }
}
