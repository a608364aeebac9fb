-- Reading a LIST.
local kind = 'list'
local function read(key)
  return redis.call('LRANGE', key, 0, -1)
end
local function at(key, offset, top)
  return payload(redis.call('LINDEX', key, top - offset))
end
