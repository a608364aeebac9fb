-- Reading a STREAM.
local kind = 'stream'
local function read(key, direction, start, limit)
  local first, command, last = start, 'XRANGE', '+'
  if direction == 'r' then
    command, last = 'XREVRANGE', '-'
  end
  if limit == '' then
    return redis.call(command, key, first, last)
  end
  return redis.call(command, key, first, last, 'COUNT', limit)
end
local function at(key, offset)
  local entry = redis.call('XRANGE', key, offset .. '-0', offset .. '-0')[1]
  return entry and entry[2][2] or ''
end
