-- Requests that wrk sends: a POST /plants with an id of its own for each, or repeats and reads of plants.
--
-- Arguments: the first id, the token, the kind ("create", "repeat" or "get"), and for all but creates how many ids from
-- the first on are drawn at random. All ids have 16 digits, so every request of a kind has the same length. At the end one
-- line of JSON is written: requests answered, microseconds, the median of the latency in microseconds, failures.

function init(arguments)
  next_id = tonumber(arguments[1])
  first_id = next_id
  ids = arguments[3] ~= "create" and tonumber(arguments[4])
  math.randomseed(os.time())
  local tail = ',"name":"Monstera deliciosa","tag":"tropical"}'
  local common = table.concat({
    " HTTP/1.1",
    "Host: " .. wrk.host .. ":" .. wrk.port,
    "Authorization: Bearer " .. arguments[2],
    ""
  }, "\r\n")
  if arguments[3] == "get" then
    head = "GET /plants/"
    rest = common .. "\r\n"
  else
    head = "POST /plants" .. common .. table.concat({
      "Content-Type: application/json",
      "Content-Length: " .. #'{"id":' + 16 + #tail,
      "",
      '{"id":'
    }, "\r\n")
    rest = tail
  end
end

function request()
  local id = next_id
  if ids then id = first_id + math.random(0, ids - 1) else next_id = next_id + 1 end
  return head .. string.format("%.0f", id) .. rest
end

function done(summary, latency)
  local errors = summary.errors
  local failures = errors.connect + errors.read + errors.write + errors.status + errors.timeout
  io.write(string.format(
    '{"requests":%.0f,"us":%.0f,"p50":%.0f,"failures":%.0f}\n',
    summary.requests, summary.duration, latency:percentile(50), failures))
end
