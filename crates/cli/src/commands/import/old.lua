-- What both scripts know of the older queue. KEYS[1] is the new queue, then come the old one's keys.
-- ARGV[1] says for how many milliseconds past its lock a message is still its worker's.
local new, messages, locks, backoffs, nattempts, done, requeue, circle, ready,
    messages_rq, lock_times, lock_times_rq, udts, eoq_backoff, ndry_runs = unpack(KEYS)
-- It stands between the rounds of the circle and is no message, unless there is one of that id.
local MARKER = 'end-of-circle'
local slack = tonumber(ARGV[1])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function number(key, mid)
    -- What is no number counted as none there.
    return math.ceil(tonumber(redis.call('HGET', key, mid) or 0) or 0)
end

-- Whether the new queue can have a message of that id. One with attempts, a copy or a window is built
-- in steps, and to give up half-way must not take a dead letter of that id along.
local function has_room(mid, in_steps)
    local status = redis.call('MQ.STATUS', new, mid)
    if status == 'dead' then
        return not in_steps
    end
    return not status or status == 'done-awaiting-gc'
end

-- What the old queue has of that id, and what it will be: `kind` is a name that the program knows.
local function read(mid)
    local payload = redis.call('HGET', messages, mid)
    if not payload then
        return { kind = 'orphan' }
    end
    local old = {
        payload = payload,
        copy = redis.call('HGET', messages_rq, mid),
        attempts = number(nattempts, mid),
        lock = number(lock_times, mid),
        copy_lock = number(lock_times_rq, mid),
        due = number(backoffs, mid),
    }
    if not old.copy and redis.call('SISMEMBER', requeue, mid) == 1 then
        old.copy, old.copy_lock = payload, old.lock
    end
    local waits = now < old.due
    if redis.call('SISMEMBER', done, mid) == 1 then
        if waits then
            old.window = true
            old.kind = old.copy and 'done-with-requeue' or 'done-with-backoff'
        elseif old.copy then
            old.kind = 'requeued'
            old.payload, old.lock, old.attempts = old.copy, old.copy_lock, 0
            old.copy = false
        else
            return { kind = 'done-awaiting-gc' }
        end
    else
        local locked_until = number(locks, mid)
        if locked_until > 0 and now < locked_until + slack then
            return { kind = old.copy and 'locked-with-requeue' or 'locked', stays = true }
        end
        old.kind = waits and 'queued-with-backoff' or 'queued'
        if old.copy then
            old.kind = old.kind .. '-and-copy'
        end
    end
    if not waits then
        old.due = 0
    end
    old.in_steps = old.window or old.copy or old.attempts > 0
    if #mid < 1 or #mid > 512 then
        return { kind = 'no-id', stays = true }
    end
    if not has_room(mid, old.in_steps) then
        return { kind = 'taken', stays = true }
    end
    return old
end
