//! What the rights of a client's user allow.

use std::ffi::c_int;

use redis_module::raw;

use super::api::call;
use super::args::Args;
use super::context::Ctx;

impl Ctx {
    /// Whether the user of the callback's client may run the command `args` on its keys, by the rights
    /// that the user has now. Servers before 7.0 do not tell: there, true.
    ///
    /// Only where the context belongs to a client, as in the callbacks of one that waits.
    pub fn user_may(&self, args: Args<'_>) -> bool {
        // SAFETY: function pointers that are written only at initialisation, a live context with a
        // client, and the arguments of its command. Name and user are freed once, the user first.
        unsafe {
            let (Some(name_of), Some(find), Some(check), Some(free)) = (
                raw::RedisModule_GetCurrentUserName,
                raw::RedisModule_GetModuleUserFromUserName,
                raw::RedisModule_ACLCheckCommandPermissions,
                raw::RedisModule_FreeModuleUser,
            ) else {
                return true;
            };
            let name = name_of(self.raw());
            let user = find(name);
            let may = !user.is_null() && {
                let allowed = check(user, args.raw().as_ptr().cast_mut(), args.len() as c_int);
                free(user);
                allowed == raw::REDISMODULE_OK as c_int
            };
            call!(RedisModule_FreeString(self.raw(), name));
            may
        }
    }
}
