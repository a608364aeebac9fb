-- payload takes an entry of a LIST, __p1:offset:epoch__payload, out of its envelope.
local function payload(entry)
  if not entry then
    return ''
  end
  local _, mark = string.find(entry, '__', 6, true) -- behind __p1:
  return mark and string.sub(entry, mark + 1) or ''
end
