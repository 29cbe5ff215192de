"""An HTTP/3 client of aioquic: HOST PORT KEY-LOG 1|2|vn STREAM-WINDOW PATH..."""

import asyncio, sys, ssl, os
from aioquic.asyncio.client import connect
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.quic.configuration import QuicConfiguration
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
host, port, keys, version, window = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4], int(sys.argv[5])
paths = sys.argv[6:]
class Client(QuicConnectionProtocol):
    def __init__(self,*a,**k):
        super().__init__(*a,**k); self.h3=H3Connection(self._quic); self.left={}; self.got={}
    def quic_event_received(self,event):
        for e in self.h3.handle_event(event):
            if isinstance(e,DataReceived): self.got[e.stream_id]=self.got.get(e.stream_id,0)+len(e.data)
            if isinstance(e,(HeadersReceived,DataReceived)) and e.stream_ended:
                f=self.left.pop(e.stream_id,None)
                if f and not f.done(): f.set_result(None)
    def get(self,path):
        s=self._quic.get_next_available_stream_id()
        self.h3.send_headers(s,[(b':method',b'GET'),(b':scheme',b'https'),(b':authority',b'localhost'),(b':path',path.encode())],end_stream=True)
        f=asyncio.get_running_loop().create_future(); self.left[s]=f; return f
async def main():
    c=QuicConfiguration(is_client=True,alpn_protocols=H3_ALPN,verify_mode=ssl.CERT_NONE,server_name='localhost')
    c.secrets_log_file=open(keys,'a')
    if version=='2':
        c.original_version=0x6b3343cf; c.supported_versions=[0x6b3343cf,1]
    if window: c.max_stream_data=window
    if version=='vn': c.supported_versions=[0x1a2a3a4a,1]; c.original_version=0x1a2a3a4a
    async with connect(host,port,configuration=c,create_protocol=Client) as p:
        await p.wait_connected()
        fs=[p.get(x) for x in paths]; p.transmit()
        if os.environ.get('UPDATE'):
            await fs[0]; p._quic.request_key_update(); fs.append(p.get(paths[0])); p.transmit()
        await asyncio.gather(*fs)
        print({k:v for k,v in p.got.items()})
asyncio.run(main())
