"""A slow uplink in front of a port: so many bytes of each client pass per second, answers at once.

Its sockets hold little, as those of a slow line do, so clients wait while they send. A reset passes
at once, and overtakes what its receiver has not read. Prints its own port.
"""
import socket
import struct
import sys
import threading
import time

port, bytes_per_second = map(int, sys.argv[1:])
BUFFER_BYTES = 32 * 1024
SEGMENT_BYTES = 1400  # of loopback's 64 KiB the kernel would buffer megabytes


def reset(connection):
    try:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.shutdown(socket.SHUT_RD)  # wakes the other thread
    except OSError:
        pass
    connection.close()


def forward(source, target, pause_after):
    try:
        while chunk := source.recv(8192):
            target.sendall(chunk)
            time.sleep(pause_after(len(chunk)))
        target.shutdown(socket.SHUT_WR)
    except OSError:
        reset(source)
        reset(target)


def pacer():
    started, passed = time.monotonic(), 0

    def pause_after(count):
        nonlocal passed
        passed += count
        return max(0, started + passed / bytes_per_second - time.monotonic())

    return pause_after


def serve(client):
    server = socket.create_connection(("127.0.0.1", port))
    answers = threading.Thread(target=forward, args=(server, client, lambda count: 0), daemon=True)
    answers.start()
    forward(client, server, pacer())
    answers.join()
    client.close()
    server.close()


listener = socket.socket()
listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER_BYTES)
listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, SEGMENT_BYTES)
listener.bind(("127.0.0.1", 0))
listener.listen(256)
print(listener.getsockname()[1], flush=True)
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
