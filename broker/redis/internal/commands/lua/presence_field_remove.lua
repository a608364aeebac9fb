-- KEYS: data, and with user mapping: users
-- ARGV: 1 client
if KEYS[2] then
  local old = redis.call('HGET', KEYS[1], ARGV[1])
  if old then
    forget(KEYS[2], nil, userOf(old))
  end
end
redis.call('HDEL', KEYS[1], ARGV[1])
return 1
