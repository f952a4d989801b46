-- Moves messages from KEYS[1] to KEYS[2], each as a whole or not at all.
-- Replies how many were moved, how many stayed, and the error that ended it, if one did.
local function digits(number)
    return string.format('%.0f', number)
end

local moved, stayed = 0, 0
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local moves = { queued = true, ['queued-with-backoff'] = true, dead = true }
for _, id in ipairs(ARGV) do
    local flat = redis.call('MQ.GET', KEYS[1], id)
    local message = {}
    for at = 1, flat and #flat or 0, 2 do
        message[flat[at]] = flat[at + 1]
    end
    if moves[message.status] then
        local args = { KEYS[2], message.payload, 'ID', id, 'PRIORITY', digits(message.priority) }
        local function add(name, value)
            args[#args + 1] = name
            args[#args + 1] = value
        end
        if message.status == 'queued-with-backoff' then
            add('AT', digits(message['due-at']))
        end
        if message['max-attempts'] > 0 then
            add('ATTEMPTS', digits(message['max-attempts']))
        end
        if message['lock-ms'] > 0 then
            add('LOCK', digits(message['lock-ms']))
        end
        if message['retain-ms'] then
            add('RETAIN', digits(message['retain-ms']))
        end
        if message.group then
            add('GROUP', message.group)
        end
        if message.headers then
            add('HEADERS', message.headers)
        end
        local ends = message['expires-at'] or 0
        if ends > 0 and message.status ~= 'dead' then
            add('TTL', digits(math.max(ends - now, 1)))
        end
        local outcome = redis.pcall('MQ.ENQUEUE', unpack(args))
        if outcome.err then
            return { moved, stayed, outcome.err }
        end
        if outcome[1] == 'added' then
            redis.call('MQ.CANCEL', KEYS[1], id)
            moved = moved + 1
        else
            stayed = stayed + 1
        end
    end
end
return { moved, stayed }
