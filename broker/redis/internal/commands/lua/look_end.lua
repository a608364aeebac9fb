-- Says when a channel that was claimed is to be looked at again.
-- KEYS: 1 looks
-- ARGV: 1 channel, 2 the time of the claim, 3 ms until then ('': never)
if redis.call('ZSCORE', KEYS[1], ARGV[1]) ~= ARGV[2] then
  return 0 -- somebody wants it sooner
end
if ARGV[3] == '' then
  return redis.call('ZREM', KEYS[1], ARGV[1])
end
redis.call('ZADD', KEYS[1], string.format('%.0f', now() + ARGV[3]), ARGV[1])
return 1
