-- Adds a message, or says why its id is taken.
-- KEYS: messages locks backoffs attempts circle ready done requeue dry-runs
-- ARGV: now (ms, the caller's clock), id, payload, initial delay (ms, 0 for none)
local messages, locks, backoffs, circle, ready, done =
    KEYS[1], KEYS[2], KEYS[3], KEYS[5], KEYS[6], KEYS[7]
local now, id, payload, delay = tonumber(ARGV[1]), ARGV[2], ARGV[3], tonumber(ARGV[4])

if redis.call('HEXISTS', messages, id) == 1 then
    local waits = now < tonumber(redis.call('HGET', backoffs, id) or 0)
    if redis.call('SISMEMBER', done, id) == 1 then
        if waits then
            return {'refused', 'backoff'}
        end
        redis.call('SREM', done, id)
        redis.call('HDEL', KEYS[4], id)
        redis.call('HSET', messages, id, payload)
        redis.call('LPUSH', ready, id)
        return {'added'}
    end
    if now < tonumber(redis.call('HGET', locks, id) or 0) then
        return {'refused', 'locked'}
    end
    return {'refused', 'queued'}
end

if redis.call('EXISTS', circle) == 0 then
    redis.call('LPUSH', circle, 'end-of-circle')
end
if delay > 0 then
    redis.call('HSET', backoffs, id, now + delay)
    redis.call('LPUSH', circle, id)
else
    redis.call('LPUSH', ready, id)
end
redis.call('HSET', messages, id, payload)
return {'added'}
