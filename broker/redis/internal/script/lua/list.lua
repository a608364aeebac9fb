-- History as a LIST: envelopes, the newest at the head.
local function payload(entry)
  if not entry then
    return ''
  end
  local _, mark = string.find(entry, '__', 6, true) -- behind __p1:
  return mark and string.sub(entry, mark + 1) or ''
end
local function newest(key)
  return payload(redis.call('LINDEX', key, 0))
end
local function append(key, _, size, _, envelope)
  redis.call('LPUSH', key, envelope)
  redis.call('LTRIM', key, 0, size - 1)
end
local function read(key)
  return redis.call('LRANGE', key, 0, -1)
end
local function at(key, offset, top)
  return payload(redis.call('LINDEX', key, top - offset))
end
