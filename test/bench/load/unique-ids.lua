-- Requests that wrk sends: a POST /plants with an id of its own for each, or repeats and reads of plants.
--
-- Arguments: the first id, the token, the kind ("create", "repeat", "get" or "page"), and for all but
-- creates how many ids from the first on are drawn at random. For creates, thread n counts from the first id plus
-- n * 10^7. All ids have 16 digits, so every request of a kind has the same length. At the end one
-- line of JSON is written: requests answered, microseconds, the median and 99th percentile of the
-- latency in microseconds, failures.

local threads = 0

function setup(thread)
  thread:set("number", threads)
  threads = threads + 1
end

function init(arguments)
  first_id = tonumber(arguments[1])
  next_id = first_id + number * 1e7
  ids = arguments[3] ~= "create" and tonumber(arguments[4])
  math.randomseed(os.time() + number)
  local is_get = arguments[3] == "get"
  local tail = ',"name":"Monstera deliciosa","tag":"tropical"}'
  local common = table.concat({
    " HTTP/1.1",
    "Host: " .. wrk.host .. ":" .. wrk.port,
    "Authorization: Bearer " .. arguments[2],
    ""
  }, "\r\n")
  if arguments[3] == "page" then page = "GET /plants?limit=100" .. common .. "\r\n" end
  if is_get then
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
  if page then return page end
  local id = next_id
  if ids then id = first_id + math.random(0, ids - 1) else next_id = next_id + 1 end
  return head .. string.format("%.0f", id) .. rest
end

function done(summary, latency)
  local errors = summary.errors
  local failures = errors.connect + errors.read + errors.write + errors.status + errors.timeout
  io.write(string.format(
    '{"requests":%.0f,"us":%.0f,"p50":%.0f,"p99":%.0f,"failures":%.0f}\n',
    summary.requests, summary.duration, latency:percentile(50), latency:percentile(99), failures))
end
