"""As clients/fetch.mjs; the first argument names the library: http.client or requests."""
import http.client
import sys
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

library, url, token, size, count, parallel = sys.argv[1:]
body = b"x" * int(size)
headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}


def send_by_http_client():
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname, parts.port)
    connection.request("POST", parts.path, body, headers)
    return connection.getresponse().status


def send_by_requests():
    import requests

    return requests.post(url, data=body, headers=headers).status_code


def send(_):
    try:
        return send_by_requests() if library == "requests" else send_by_http_client()
    except Exception as error:
        return repr(error)


with ThreadPoolExecutor(int(parallel)) as threads:
    for outcome in threads.map(send, range(int(count))):
        print(outcome)
