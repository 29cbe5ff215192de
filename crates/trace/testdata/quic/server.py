"""An HTTP/3 server of aioquic: /N has N bytes, /N/pause sleeps in the middle. HOST PORT retry|no."""

import asyncio, sys, os
from aioquic.asyncio import serve
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.quic.configuration import QuicConfiguration
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import HeadersReceived
from aioquic.quic.logger import QuicFileLogger
host, port, retry = sys.argv[1], int(sys.argv[2]), sys.argv[3] == 'retry'
class Server(QuicConnectionProtocol):
    def __init__(self,*a,**k):
        super().__init__(*a,**k); self.h3=None
    def quic_event_received(self,event):
        if self.h3 is None: self.h3=H3Connection(self._quic)
        for e in self.h3.handle_event(event):
            if isinstance(e,HeadersReceived):
                path=dict(e.headers)[b':path'].decode(); asyncio.ensure_future(self.answer(e.stream_id,path))
    async def answer(self,s,path):
        size=int(path.split('/')[1])
        self.h3.send_headers(s,[(b':status',b'200'),(b'content-length',str(size).encode())])
        if path.endswith('/pause'):
            self.h3.send_data(s,b'a'*(size//2),False); self.transmit(); await asyncio.sleep(0.15); self.h3.send_data(s,b'b'*(size-size//2),True)
        else: self.h3.send_data(s,b'a'*size,True)
        self.transmit()
async def main():
    c=QuicConfiguration(is_client=False,alpn_protocols=H3_ALPN); c.load_cert_chain('cert.pem','key.pem')
    c.supported_versions=[1,0x6b3343cf]
    if os.environ.get('QLOG'): c.quic_logger=QuicFileLogger(os.environ['QLOG'])
    await serve(host,port,configuration=c,create_protocol=Server,retry=retry)
    await asyncio.Future()
asyncio.run(main())
