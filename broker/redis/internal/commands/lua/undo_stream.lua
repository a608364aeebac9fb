-- Behind publish: takes the entry back, so that its ID can be used again.
if appended then
  pcall('XDEL', history, number .. '-0')
  local before = string.format('%.0f-0', offset - 1)
  local set = pcall('XSETID', history, before, 'ENTRIESADDED', pcall('XLEN', history), 'MAXDELETEDID', '0-0')
  if set.err then -- older than Redis 7
    pcall('XSETID', history, before)
  end
end
return failure
