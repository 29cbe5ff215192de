"""An HTTP/3 client and server of aioquic, for the tests of weir serve and weir fetch.

    get [flags] ADDRESS NAME...        fetches files, compares them with those of --folder, prints what it saw as JSON
    files [flags] CERT KEY FOLDER      serves a folder until standard input ends; prints its port, then what it saw as JSON

Exit code 3: aioquic is not installed.
"""

import argparse
import asyncio
import json
import os
import ssl
import sys

try:
    from aioquic.asyncio import connect, serve
    from aioquic.asyncio.protocol import QuicConnectionProtocol
    from aioquic.h3.connection import H3Connection
    from aioquic.h3.events import DataReceived, HeadersReceived
    from aioquic.quic.configuration import QuicConfiguration
    from aioquic.quic.crypto import CryptoPair
    from aioquic.quic.events import ConnectionTerminated, HandshakeCompleted
    from aioquic.quic.logger import QuicLogger
    from aioquic.tls import CipherSuite
except ImportError:
    sys.exit(3)

# Everything is done by then, or has failed.
PATIENCE = 100
# How much of the first file has arrived when the client changes its address or its keys.
MOVES_AT = 1 << 20
MAX_EARLY_DATA = 0xFFFFFFFF


# Key updates of this end's connections: those it began, and those it followed.
UPDATES = {"local_update": 0, "remote_update": 0}
update_key = CryptoPair._update_key


def counted(pair, trigger):
    UPDATES[trigger] += 1
    update_key(pair, trigger)


CryptoPair._update_key = counted


def updates():
    return {"updates": UPDATES["local_update"], "followed": UPDATES["remote_update"]}


def versions(words):
    return [int(word, 0) for word in words.split(",")]


def settings(args, is_client):
    made = QuicConfiguration(is_client=is_client, alpn_protocols=["h3"], idle_timeout=PATIENCE)
    if args.versions:
        made.supported_versions = versions(args.versions)
        if is_client:
            made.original_version = made.supported_versions[0]
    if args.chacha:
        made.cipher_suites = [CipherSuite.CHACHA20_POLY1305_SHA256]
    return made


class Ask:
    """A request and what came for it."""

    def __init__(self):
        self.status, self.body = "", bytearray()
        self.ended = asyncio.get_running_loop().create_future()


class Client(QuicConnectionProtocol):
    def __init__(self, *arguments, **more):
        super().__init__(*arguments, **more)
        self.http, self.asks, self.early, self.resumed = H3Connection(self._quic), {}, False, False
        # The addresses of the client, and datagrams that came to the newest.
        self.moved, self.arrived = 0, 0
        self.at_moves = None

    def datagram_received(self, data, addr):
        self.arrived += 1
        super().datagram_received(data, addr)

    def quic_event_received(self, event):
        if isinstance(event, HandshakeCompleted):
            self.early, self.resumed = event.early_data_accepted, event.session_resumed
        if isinstance(event, ConnectionTerminated):
            for ask in self.asks.values():
                if not ask.ended.done():
                    ask.ended.set_exception(ConnectionError(f"{event.error_code:#x} {event.reason_phrase}"))
        for one in self.http.handle_event(event):
            ask = self.asks.get(one.stream_id)
            if ask is None:
                continue
            if isinstance(one, HeadersReceived):
                ask.status = dict(one.headers)[b":status"].decode()
            if isinstance(one, DataReceived):
                ask.body += one.data
                if self.at_moves and len(ask.body) >= MOVES_AT:
                    at_moves, self.at_moves = self.at_moves, None
                    asyncio.ensure_future(at_moves())
            if one.stream_ended and not ask.ended.done():
                ask.ended.set_result(None)

    def send(self, name, transmit=True):
        stream = self._quic.get_next_available_stream_id()
        self.asks[stream] = ask = Ask()
        head = [(b":method", b"GET"), (b":scheme", b"https"), (b":authority", b"a.test"), (b":path", b"/" + name.encode())]
        self.http.send_headers(stream, head, end_stream=True)
        if transmit:
            self.transmit()
        return ask

    async def move(self):
        """Another socket and another connection ID (RFC 9000 section 9.5)."""
        self._transport.close()
        self.arrived = 0
        await self._loop.create_datagram_endpoint(lambda: self, local_addr=("::", 0))
        self.change_connection_id()

    async def update(self):
        self.request_key_update()

    def connection_made(self, transport):
        self._transport = transport

    def connection_lost(self, error):
        pass


class Getter:
    def __init__(self, args):
        self.args, self.tickets, self.bytes = args, [], 0
        self.has_ticket = asyncio.Event()
        self.seen = {"connections": 0, "versions": [], "suites": [], "resumed": [], "early": [], "moved": 0}

    def take_ticket(self, ticket):
        self.tickets.append(ticket)
        self.has_ticket.set()

    def check(self, name, ask):
        with open(os.path.join(self.args.folder, name), "rb") as file:
            wanted = file.read()
        if ask.status != "200" or bytes(ask.body) != wanted:
            sys.exit(f"{name}: status {ask.status}, {len(ask.body)} bytes of {len(wanted)}")
        self.bytes += len(wanted)

    async def connection(self, names, ticket=None):
        args = self.args
        made = settings(args, True)
        made.verify_mode, made.server_name = ssl.CERT_NONE, "a.test"
        made.max_data, made.max_stream_data = 1 << 24, 1 << 23
        made.session_ticket, made.quic_logger = ticket, None
        host, port = args.address.rsplit(":", 1)
        early = ticket is not None and args.early
        if early:
            # Weir's tickets permit no early data. This client offers it nevertheless.
            ticket.max_early_data_size = MAX_EARLY_DATA
        self.seen["connections"] += 1
        opened = connect(
            host.strip("[]"), int(port), configuration=made, create_protocol=Client,
            session_ticket_handler=self.take_ticket, wait_connected=not early,
        )
        async with opened as client:
            if args.move:
                client.at_moves = client.move
            if args.update:
                client.at_moves = client.update
            asks = [client.send(name, transmit=False) for name in names]
            client.transmit()
            # What leaves as early data and is not taken is sent again.
            await asyncio.gather(*(ask.ended for ask in asks))
            for name, ask in zip(names, asks):
                self.check(name, ask)
            self.seen["versions"].append(f"v{2 if client._quic._version == 0x6B3343CF else client._quic._version}")
            self.seen["suites"].append(client._quic.tls.key_schedule.cipher_suite.name)
            self.seen["resumed"].append(client.resumed)
            self.seen["early"].append(client.early)
            self.seen["moved"] += client.arrived if args.move else 0

    async def run(self):
        args = self.args
        if args.apart:
            await asyncio.gather(*(self.connection([name]) for name in args.names))
        elif args.resume:
            await self.connection(args.names[:1])
            await self.has_ticket.wait()
            await self.connection(args.names[1:], self.tickets[0])
        else:
            await self.connection(args.names)
        print(json.dumps({"files": len(args.names), "bytes": self.bytes, **self.seen, **updates()}))


class Server(QuicConnectionProtocol):
    """Serves the folder `root`, and counts in `seen`."""

    root, update, once, seen = "", False, False, {"connections": 0, "early": 0, "moved": 0}

    def __init__(self, *arguments, **more):
        super().__init__(*arguments, **more)
        self.http = H3Connection(self._quic)
        self.addresses, self.has_updated = set(), False
        Server.seen["connections"] += 1

    def datagram_received(self, data, addr):
        super().datagram_received(data, addr)
        path = self._quic._network_paths[0]
        if path.is_validated and path.addr not in self.addresses:
            Server.seen["moved"] += bool(self.addresses)
            self.addresses.add(path.addr)

    def quic_event_received(self, event):
        if isinstance(event, HandshakeCompleted):
            Server.seen["early"] += event.early_data_accepted
        for one in self.http.handle_event(event):
            if not isinstance(one, HeadersReceived):
                continue
            if self.once and one.stream_id > 0:
                # The client sends the request again over another connection.
                return self.close(error_code=0x100)
            name = dict(one.headers)[b":path"].decode().lstrip("/") or "index.html"
            with open(os.path.join(self.root, name), "rb") as file:
                body = file.read()
            kind = b"text/html" if name.endswith(".html") else b"image/gif"
            self.http.send_headers(one.stream_id, [(b":status", b"200"), (b"content-type", kind)])
            self.http.send_data(one.stream_id, body, end_stream=True)
            if self.update:
                self.updates()
            self.transmit()

    def updates(self):
        # A server's handshake is confirmed as soon as it is complete (RFC 9001 section 4.1.2).
        if not self.has_updated:
            self.has_updated = True
            self.request_key_update()


async def files(args):
    Server.root, Server.update, Server.once = args.folder, args.update, args.once
    made = settings(args, False)
    made.load_cert_chain(args.cert, args.key)
    tickets = {}
    host, port = args.at.rsplit(":", 1)
    server = await serve(
        host.strip("[]"), int(port), configuration=made, create_protocol=Server, retry=args.retry,
        session_ticket_fetcher=tickets.get,
        session_ticket_handler=lambda ticket: tickets.__setitem__(ticket.ticket, ticket),
    )
    print(server._transport.get_extra_info("sockname")[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    print(json.dumps({**Server.seen, **updates()}), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("role", choices=["get", "files"])
    parser.add_argument("--folder")
    parser.add_argument("--versions")
    parser.add_argument("--at", default="127.0.0.1:0")
    for flag in ["chacha", "apart", "resume", "early", "move", "update", "retry", "once"]:
        parser.add_argument("--" + flag, action="store_true")
    parser.add_argument("words", nargs="+")
    args = parser.parse_args()
    if args.role == "get":
        args.address, *args.names = args.words
        asyncio.run(asyncio.wait_for(Getter(args).run(), PATIENCE))
    else:
        args.cert, args.key, args.folder = args.words
        asyncio.run(files(args))


main()
