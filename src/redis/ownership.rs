//! Which keys of a cluster this server serves.

use std::io;

use redis_module::raw;

use super::args::KeyName;
use super::context::Ctx;

/// `ENOENT`, what the server says of a command that it does not have.
const NO_SUCH_COMMAND: i32 = 2;

impl Ctx {
    /// Whether this server serves the key now. In a cluster a key may be here that it does not: of a slot
    /// that is still moving in, whose old owner decides. Outside of a cluster it serves all.
    ///
    /// Servers have no function for it that all know, but refuse a command on such a key.
    pub fn serves(&self, name: KeyName<'_>) -> bool {
        if !self.flags().is_cluster() {
            return true;
        }
        // SAFETY: function pointers that are written only at initialisation, a live context, a
        // NUL-terminated command, the one string of the format, and a reply that is freed once.
        unsafe {
            let (Some(call), Some(free)) = (raw::RedisModule_Call, raw::RedisModule_FreeCallReply)
            else {
                return true;
            };
            let reply = call(self.raw(), c"EXISTS".as_ptr(), c"s".as_ptr(), name.raw());
            if reply.is_null() {
                return io::Error::last_os_error().raw_os_error() == Some(NO_SUCH_COMMAND);
            }
            free(reply);
            true
        }
    }
}
