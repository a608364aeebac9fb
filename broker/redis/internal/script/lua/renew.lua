-- Gives a stream another epoch, if it still has the one named.
-- KEYS: meta
-- ARGV: 1 epoch, 2 new epoch
if redis.call('HGET', KEYS[1], 'e') ~= ARGV[1] then
  return 0
end
redis.call('HSET', KEYS[1], 'e', ARGV[2])
return 1
