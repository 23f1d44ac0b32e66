-- A POST /plants with an id of its own for every request that wrk sends.
--
-- Arguments: the first id, the token. Thread n counts from the first id plus
-- n * 10^7; all ids have 16 digits, so every request has the same length. At
-- the end one line of JSON is written: requests answered, microseconds, the
-- median and 99th percentile of the latency in microseconds, failures.

local threads = 0

function setup(thread)
  thread:set("number", threads)
  threads = threads + 1
end

function init(arguments)
  next_id = tonumber(arguments[1]) + number * 1e7
  local tail = ',"name":"Monstera deliciosa","tag":"tropical"}'
  head = table.concat({
    "POST /plants HTTP/1.1",
    "Host: " .. wrk.host .. ":" .. wrk.port,
    "Authorization: Bearer " .. arguments[2],
    "Content-Type: application/json",
    "Content-Length: " .. #'{"id":' + 16 + #tail,
    "",
    '{"id":'
  }, "\r\n")
  rest = tail
end

function request()
  local id = next_id
  next_id = next_id + 1
  return head .. string.format("%.0f", id) .. rest
end

function done(summary, latency)
  local errors = summary.errors
  local failures = errors.connect + errors.read + errors.write + errors.status + errors.timeout
  io.write(string.format(
    '{"requests":%.0f,"us":%.0f,"p50":%.0f,"p99":%.0f,"failures":%.0f}\n',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99), failures))
end
