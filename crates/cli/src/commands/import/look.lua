-- Looks at a part of the old queue and changes nothing. ARGV[2] is the cursor, ARGV[3] how many.
-- Replies the next cursor, how many of each kind, and the ids.
local page = redis.call('HSCAN', messages, ARGV[2], 'COUNT', ARGV[3])
local counts, kinds, ids = {}, {}, {}
for at = 1, #page[2], 2 do
    local mid = page[2][at]
    local kind = read(mid).kind
    if not counts[kind] then
        counts[kind] = 0
        kinds[#kinds + 1] = kind
    end
    counts[kind] = counts[kind] + 1
    ids[#ids + 1] = mid
end
local told = {}
for _, kind in ipairs(kinds) do
    told[#told + 1] = kind
    told[#told + 1] = counts[kind]
end
return { page[1], told, ids }
