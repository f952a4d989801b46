-- Removes dead letters by their ids. CANCEL takes whatever there is of an id, so a letter stays whose id
-- has a live message again. KEYS: the queue. ARGV: ids. Reply: how many are gone.
local gone = 0
for _, id in ipairs(ARGV) do
  local status = redis.call('MQ.STATUS', KEYS[1], id)
  if type(status) == 'table' then
    status = status.ok
  end
  if status == 'dead' then
    gone = gone + redis.call('MQ.CANCEL', KEYS[1], id)
  end
end
return gone
