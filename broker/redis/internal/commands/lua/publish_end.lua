-- Answers, or undoes what was done.
if not failure then
  return flag .. number .. ':' .. epoch
end

-- Nobody got it: it has not been, nor its offset, nor its key. An entry that it pushed out
-- of a full history does not come back.
pcall('HINCRBY', meta, 's', -1)
if versions and versions[1] then
  pcall('HSET', meta, 'v', versions[1], 've', versions[2] or '')
elseif versions then
  pcall('HDEL', meta, 'v', 've')
end
if result then
  pcall('DEL', result)
end
