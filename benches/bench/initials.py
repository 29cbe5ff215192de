"""First packets of QUIC clients that do not exist: made beforehand, then sent from many addresses of the loopback network.

    python initials.py make FILE COUNT              needs aioquic
    python initials.py send FILE PORT RATE SECONDS  prints how many were sent

Each is a whole Initial with a ClientHello of its own (RFC 9000 section 17.2.2), so a server that accepts it begins a
handshake. Nobody answers what the server sends back.
"""

import socket
import sys
import time

SIZE = 1200
SOCKETS = 250


def make(path, count):
    """Writes so many datagrams of one size."""
    from aioquic.quic.configuration import QuicConfiguration
    from aioquic.quic.connection import QuicConnection

    configuration = QuicConfiguration(is_client=True, alpn_protocols=["h3"], server_name="localhost", max_datagram_size=SIZE)
    with open(path, "wb") as out:
        for _ in range(count):
            connection = QuicConnection(configuration=configuration)
            connection.connect(("127.0.0.1", 443), now=0.0)
            datagram = connection.datagrams_to_send(now=0.0)[0][0]
            if len(datagram) != SIZE:
                raise SystemExit(f"an Initial has {len(datagram)} bytes, not {SIZE}")
            out.write(datagram)


def send(path, port, rate, seconds):
    """Sends them one after the other, from the start again after the last, at so many a second."""
    with open(path, "rb") as f:
        datagrams = f.read()
    count = len(datagrams) // SIZE
    sockets = []
    for at in range(SOCKETS):
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        s.bind((f"127.{1 + at % 200}.{1 + at // 200}.1", 0))
        s.setblocking(False)
        sockets.append(s)
    began, sent = time.monotonic(), 0
    while (passed := time.monotonic() - began) < seconds:
        for sent in range(sent, int(passed * rate)):
            at = sent % count * SIZE
            try:
                sockets[sent % SOCKETS].sendto(datagrams[at:at + SIZE], ("127.0.0.1", port))
            except OSError:
                # The server's answers fill nothing: they are never read, and the oldest stay.
                pass
        time.sleep(0.002)
    print(sent)


if __name__ == "__main__":
    if sys.argv[1] == "make":
        make(sys.argv[2], int(sys.argv[3]))
    else:
        send(sys.argv[2], int(sys.argv[3]), float(sys.argv[4]), float(sys.argv[5]))
