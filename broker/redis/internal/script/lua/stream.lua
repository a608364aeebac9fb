-- History as a STREAM: entries with the ID <offset>-0 and the field d.
local function newest(key)
  local entry = redis.call('XREVRANGE', key, '+', '-', 'COUNT', '1')[1]
  return entry and entry[2][2] or ''
end
local function append(key, offset, size, payload)
  redis.call('XADD', key, 'MAXLEN', size, offset .. '-0', 'd', payload)
end
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
