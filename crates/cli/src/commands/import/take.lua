-- Takes messages out of the old queue into the new one, each as a whole or not at all.
-- ARGV[2]: `ready` or `circle`, and ARGV[3] how many of that list, the next first; `strays`, and behind
-- it ids that are in no list; `end`, to remove what is left when the last message has gone.
-- Replies how many entries of the list it looked at, what they were (id, kind, 1 if it was taken),
-- and the error that ended it, or nothing.
local HEADERS = 'content-type: application/x-carmine-nippy'
-- A message's deliveries are made here one by one: more than that would hold up the server.
local MOST_ATTEMPTS = 1000
-- How many other messages of the first priority may be in front of one that is built in steps.
local MOST_OTHERS = 200
local TEN_YEARS = 315360000000
local DAY = '86400000'

local function digits(value)
    return string.format('%.0f', value)
end

local function forget(mid)
    for _, key in ipairs({ messages, locks, backoffs, nattempts, messages_rq, lock_times, lock_times_rq, udts }) do
        redis.call('HDEL', key, mid)
    end
    redis.call('SREM', done, mid)
    redis.call('SREM', requeue, mid)
end

-- Whatever is not allowed shall fail before anything is changed: memory first, which the server asks
-- for at the first write only, then all that must not fail after a message has been added.
redis.call('SETRANGE', ndry_runs, 0, '')
forget('\0redis-mq')
redis.call('MQ.CANCEL', new, '\0redis-mq')

-- Sends a command whose error ends the step for this message.
local function must(...)
    local answer = redis.pcall(...)
    if type(answer) == 'table' and answer.err then
        error({ text = answer.err })
    end
    return answer
end

local function add(mid, payload, lock, more)
    local args = { 'MQ.ENQUEUE', new, payload, 'ID', mid, 'HEADERS', HEADERS }
    if lock > 0 then
        args[#args + 1] = 'LOCK'
        args[#args + 1] = digits(math.min(lock, TEN_YEARS))
    end
    for _, value in ipairs(more) do
        args[#args + 1] = value
    end
    return must(unpack(args))
end

-- Messages that were handed over on the way to another one, with their tokens.
local others = {}

local function hand_over(mid)
    while #others < MOST_OTHERS do
        local delivery = must('MQ.DEQUEUE', new, 'LOCK', DAY)
        if not delivery then
            error({ text = 'the new queue\'s limits keep messages back: take INFLIGHT and RATE off until the import is over' })
        end
        local token = digits(delivery[4])
        if delivery[1] == mid then
            return token
        end
        others[#others + 1] = { delivery[1], token }
    end
    error({ text = 'too many messages of priority 0 wait in the new queue' })
end

local function at(old)
    if old.due > 0 then
        return { 'AT', digits(math.min(old.due, now + TEN_YEARS)) }
    end
    return {}
end

-- Attempts, a copy and a window are what deliveries leave: so the message is delivered, in front of
-- all others, as often as it was.
local function build_in_steps(mid, old)
    must('MQ.ENQUEUE', new, old.payload, 'ID', mid, 'HEADERS', HEADERS,
        'PRIORITY', '0', 'ATTEMPTS', '4294967295', 'LOCK', DAY)
    local token = hand_over(mid)
    for _ = 2, math.min(old.attempts, MOST_ATTEMPTS) do
        must('MQ.DONE', new, mid, token, 'RETRY')
        token = hand_over(mid)
    end
    if old.window then
        must('MQ.DONE', new, mid, token, 'SUCCESS', 'BACKOFF', digits(math.min(old.due - now, TEN_YEARS)))
    end
    if old.copy then
        add(mid, old.copy, old.copy_lock, { 'REQUEUE' })
    end
    if not old.window then
        -- A release counts no attempt.
        must('MQ.DONE', new, mid, token, old.attempts > 0 and 'RETRY' or 'RELEASE')
        local more = at(old)
        more[#more + 1] = 'UPDATE'
        add(mid, old.payload, old.lock, more)
    end
end

-- Returns an error if there was one; then nothing is changed.
local function bring_over(mid, old)
    if old.kind ~= 'orphan' and old.kind ~= 'done-awaiting-gc' then
        local fine, trouble
        if old.in_steps then
            fine, trouble = pcall(build_in_steps, mid, old)
            for _, other in ipairs(others) do
                redis.pcall('MQ.DONE', new, other[1], other[2], 'RELEASE')
            end
            others = {}
            if not fine then
                redis.call('MQ.CANCEL', new, mid)
            end
        else
            fine, trouble = pcall(add, mid, old.payload, old.lock, at(old))
        end
        if not fine then
            return type(trouble) == 'table' and trouble.text or tostring(trouble)
        end
    end
    forget(mid)
end

local looked, told, trouble = 0, {}, false

local function tell(mid, kind, taken)
    told[#told + 1] = mid
    told[#told + 1] = kind
    told[#told + 1] = taken
end

-- Returns whether it was taken; nothing if the step has to end before it.
local function take(mid)
    local old = read(mid)
    if old.stays then
        tell(mid, old.kind, 0)
        return false, 1
    end
    trouble = bring_over(mid, old) or false
    if trouble then
        return nil
    end
    tell(mid, old.kind, 1)
    return true, 1 + 2 * math.min(old.attempts or 0, MOST_ATTEMPTS)
end

local function walk(list, budget)
    while budget > 0 do
        local mid = redis.call('LINDEX', list, -1)
        if not mid then
            return
        end
        local taken, cost = false, 1
        if mid ~= MARKER or list ~= circle then
            taken, cost = take(mid)
            if taken == nil then
                return
            end
        end
        if taken then
            redis.call('RPOP', list)
        else
            -- Behind the others, as the old workers put it.
            redis.call('RPOPLPUSH', list, circle)
        end
        looked = looked + 1
        budget = budget - cost
    end
end

local function strays()
    for at = 3, #ARGV do
        local mid = ARGV[at]
        local listed = redis.call('LPOS', ready, mid) or (mid ~= MARKER and redis.call('LPOS', circle, mid))
        if listed then
            -- It came after the walk, and keeps its place for the next one.
            tell(mid, 'later', 0)
        elseif redis.call('HEXISTS', messages, mid) == 1 and take(mid) == nil then
            return
        end
        looked = looked + 1
    end
end

-- A pause keeps deliveries back; nobody gets one in between, since this is one step.
local paused, paused_until
local info = redis.call('MQ.INFO', new)
for at = 1, info and #info or 0, 2 do
    if info[at] == 'paused' then
        paused = info[at + 1] == 1
    elseif info[at] == 'paused-until' then
        paused_until = info[at + 1]
    end
end
if paused then
    redis.call('MQ.RESUME', new)
end
local mode = ARGV[2]
local fine, fault
if mode == 'strays' then
    fine, fault = pcall(strays)
elseif mode == 'end' then
    fine = true
    if redis.call('EXISTS', messages) == 0 then
        redis.call('DEL', unpack(KEYS, 2))
    end
    looked = redis.call('HLEN', messages)
else
    fine, fault = pcall(walk, mode == 'ready' and ready or circle, tonumber(ARGV[3]))
end
if paused and paused_until > now then
    redis.call('MQ.PAUSE', new, 'FOR', digits(paused_until - now))
elseif paused then
    redis.call('MQ.PAUSE', new)
end
if not fine then
    trouble = type(fault) == 'table' and fault.err or tostring(fault)
end
return { looked, told, trouble }
