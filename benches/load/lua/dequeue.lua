-- One poll: looks at the next id and hands it over if it is ready.
-- KEYS: messages locks backoffs attempts circle ready done requeue dry-runs
-- ARGV: now (ms, the caller's clock), lock time (ms), five pauses for the end of the circle (ms)
local messages, locks, backoffs, attempts, circle, ready, done, requeue, dry_runs =
    KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], KEYS[8], KEYS[9]
local now, lock = tonumber(ARGV[1]), tonumber(ARGV[2])

local id = redis.call('RPOPLPUSH', ready, circle)
local fresh = id
if not id then
    id = redis.call('RPOPLPUSH', circle, circle)
end
if not id or id == 'end-of-circle' then
    local runs = redis.call('INCR', dry_runs)
    return {'sleep', ARGV[2 + math.min(runs, 5)]}
end

if redis.call('HEXISTS', messages, id) == 0 then
    if not fresh then
        redis.call('LTRIM', circle, 1, -1)
    end
    return {'skip', 'gone'}
end
local waits = now < tonumber(redis.call('HGET', backoffs, id) or 0)
if redis.call('SISMEMBER', done, id) == 1 then
    if waits then
        return {'skip', 'done-with-backoff'}
    end
    redis.call('SET', dry_runs, 0)
    for _, key in ipairs({messages, locks, backoffs, attempts}) do
        redis.call('HDEL', key, id)
    end
    redis.call('SREM', done, id)
    redis.call('SREM', requeue, id)
    if not fresh then
        redis.call('LTRIM', circle, 1, -1)
    end
    return {'skip', 'swept'}
end
if now < tonumber(redis.call('HGET', locks, id) or 0) then
    return {'skip', 'locked'}
end
if waits then
    return {'skip', 'queued-with-backoff'}
end

redis.call('SET', dry_runs, 0)
redis.call('HSET', locks, id, now + lock)
return {'handle', id, redis.call('HGET', messages, id), redis.call('HINCRBY', attempts, id, 1)}
