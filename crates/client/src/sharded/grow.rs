//! Messages of before the queue grew.
//!
//! Whether a message belongs to its former shard or to its new one is decided at the former one, in
//! one step with the enqueue there: if the id or the group is in use, the message is the former
//! shard's, and else nobody adds to it there any more. So of all producers that know of the growth
//! none can add at one place what another one has just added at the other.

use redis::{Cmd, Value};

/// Enqueues if the id or the group is in use here; else null.
///
/// The id and the group are the first two arguments, empty if there is none: neither can be. The
/// others are those of `MQ.ENQUEUE` behind the queue.
const SCRIPT: &str = "\
local key, id, group = KEYS[1], ARGV[1], ARGV[2]
local used = false
if id ~= '' then
  local status = redis.pcall('MQ.STATUS', key, id)
  if type(status) == 'table' and status.err then return status end
  used = status and status ~= 'dead' and status ~= 'done-awaiting-gc'
end
if group ~= '' and not used then
  local page = redis.pcall('MQ.GROUPS', key, '0', 'GROUP', group)
  if type(page) == 'table' and page.err then return page end
  used = page and page[2][1] and page[2][1][7] > 0
end
if not used then return false end
return redis.pcall('MQ.ENQUEUE', key, unpack(ARGV, 3))";

/// The script, for that enqueue at that key.
pub(super) fn command(key: &[u8], id: Option<&[u8]>, group: Option<&[u8]>, enqueue: &Cmd) -> Cmd {
    let mut command = redis::cmd("EVAL");
    command.arg(SCRIPT).arg(1).arg(key);
    command.arg(id.unwrap_or_default());
    command.arg(group.unwrap_or_default());
    // Behind the command's name and the queue.
    for arg in enqueue.args_iter().skip(2) {
        if let redis::Arg::Simple(bytes) = arg {
            command.arg(bytes);
        }
    }
    command
}

/// Whether the former shard has left the message to the new one.
pub(super) fn is_left(reply: &Value) -> bool {
    matches!(reply, Value::Nil)
}
