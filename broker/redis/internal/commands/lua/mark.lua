-- Writes a mark: the number that a node counts up, by which it sees whether the data
-- of the server went back. A call that comes late, on a connection that the node has given up,
-- does not replace a greater number.
-- KEYS: mark
-- ARGV: 1 number, 2 TTL in ms
-- Returns the number that was there, or '0', and the ID of the server's replication,
-- which is another one whenever it was a replica in between; '' if it does not tell.
local before = redis.call('GET', KEYS[1]) or '0'
if tonumber(before) < tonumber(ARGV[1]) then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
end
local info = redis.pcall('INFO', 'replication')
local id = type(info) == 'string' and string.match(info, 'master_replid:(%w+)') or ''
return {before, id}
