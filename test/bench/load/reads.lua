-- A read for every request that wrk sends, or a create that is a repeat.
--
-- Arguments: `get`, `page` or `repeat`, the first id, how many ids there are from it on, the token.
-- At the end it writes the same line of JSON as unique-ids.lua.

function init(arguments)
  kind = arguments[1]
  first = tonumber(arguments[2])
  count = tonumber(arguments[3])
  next_id = 0
  local common = table.concat({
    "Host: " .. wrk.host .. ":" .. wrk.port,
    "Authorization: Bearer " .. arguments[4],
    ""
  }, "\r\n")
  page = "GET /plants?limit=100 HTTP/1.1\r\n" .. common .. "\r\n"
  tail = " HTTP/1.1\r\n" .. common .. "\r\n"
  rest = ',"name":"Monstera deliciosa","tag":"tropical"}'
  head = "POST /plants HTTP/1.1\r\n" .. common .. "Content-Type: application/json\r\n" ..
    "Content-Length: " .. #'{"id":' + 16 + #rest .. '\r\n\r\n{"id":'
end

function request()
  if kind == "page" then return page end
  local id = string.format("%.0f", first + next_id)
  next_id = (next_id + 7919) % count
  if kind == "get" then return "GET /plants/" .. id .. tail end
  return head .. id .. rest
end

function done(summary, latency)
  local errors = summary.errors
  local failures = errors.connect + errors.read + errors.write + errors.status + errors.timeout
  io.write(string.format(
    '{"requests":%.0f,"us":%.0f,"p50":%.0f,"p99":%.0f,"failures":%.0f}\n',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99), failures))
end
