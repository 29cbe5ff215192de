//! Raw streams of quinn, as a yardstick for `benches/h3`: what a body costs over QUIC without HTTP/3.
//!
//! A client opens a stream and sends a number of bytes (8 octets, big endian); the server sends that many back and ends
//! the stream. Each end has one thread. Windows are those of `weir load`, and receive buffers those of Weir; everything
//! else is quinn's default.

use bytes::Bytes;
use quinn::crypto::rustls::{QuicClientConfig, QuicServerConfig};
use quinn::{
    ClientConfig, Connection, Endpoint, EndpointConfig, RecvStream, SendStream, ServerConfig, TokioRuntime,
    TransportConfig, VarInt,
};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::version::TLS13;
use rustls::{DigitallySignedStruct, SignatureScheme};
use std::error::Error;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

type Failure = Box<dyn Error + Send + Sync>;

/// Largest body: the server keeps one, and sends its beginning.
const BODY_MAX: usize = 64 << 20;
/// Receive windows of `weir load`, in bytes.
const STREAM_WINDOW: u32 = 6 << 20;
const CONNECTION_WINDOW: u32 = 15 << 20;
/// Receive buffer of Weir's sockets, in bytes.
const RECEIVE_BUFFER: usize = 4 << 20;
const USAGE: &str = "usage: quinn-yardstick serve ADDRESS CERT KEY | load ADDRESS CONNECTIONS BYTES SECONDS";

fn main() -> Result<(), Failure> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    match words[..] {
        ["serve", address, cert, key] => runtime.block_on(serve(address.parse()?, cert, key)),
        ["load", address, connections, bytes, seconds] => {
            let span = Duration::from_secs_f64(seconds.parse()?);
            runtime.block_on(load(address.parse()?, connections.parse()?, bytes.parse()?, span))
        }
        _ => Err(USAGE.into()),
    }
}

/// A socket with the receive buffer of Weir's.
fn bind(address: SocketAddr) -> Result<UdpSocket, Failure> {
    let socket = UdpSocket::bind(address)?;
    socket2::SockRef::from(&socket).set_recv_buffer_size(RECEIVE_BUFFER)?;
    Ok(socket)
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

async fn serve(address: SocketAddr, cert: &str, key: &str) -> Result<(), Failure> {
    let chain = CertificateDer::pem_file_iter(cert)?.collect::<Result<Vec<_>, _>>()?;
    let tls = rustls::ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])?
        .with_no_client_auth()
        .with_single_cert(chain, PrivateKeyDer::from_pem_file(key)?)?;
    let config = ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls)?));
    let runtime = Arc::new(TokioRuntime);
    let endpoint = Endpoint::new(EndpointConfig::default(), Some(config), bind(address)?, runtime)?;
    let body = Bytes::from(vec![b'x'; BODY_MAX]);
    while let Some(incoming) = endpoint.accept().await {
        let body = body.clone();
        tokio::spawn(async move {
            let Ok(connection) = incoming.await else { return };
            while let Ok((send, recv)) = connection.accept_bi().await {
                tokio::spawn(answer(send, recv, body.clone()));
            }
        });
    }
    Ok(())
}

async fn answer(mut send: SendStream, mut recv: RecvStream, body: Bytes) -> Result<(), Failure> {
    let mut asked = [0; 8];
    recv.read_exact(&mut asked).await?;
    let length = usize::try_from(u64::from_be_bytes(asked))?;
    if length > body.len() {
        return Err(format!("{length} bytes are asked for, and {BODY_MAX} are the most").into());
    }
    send.write_chunk(body.slice(..length)).await?;
    send.finish()?;
    Ok(())
}

/// Asks on this many connections for this long, one stream at a time on each, and prints the number of bodies received.
async fn load(address: SocketAddr, connections: usize, length: u64, span: Duration) -> Result<(), Failure> {
    let tls = rustls::ClientConfig::builder_with_provider(provider())
        .with_protocol_versions(&[&TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anyone(provider())))
        .with_no_client_auth();
    let mut transport = TransportConfig::default();
    transport
        .stream_receive_window(VarInt::from_u32(STREAM_WINDOW))
        .receive_window(VarInt::from_u32(CONNECTION_WINDOW));
    let mut config = ClientConfig::new(Arc::new(QuicClientConfig::try_from(tls)?));
    config.transport_config(Arc::new(transport));
    let socket = bind(SocketAddr::from(([0; 4], 0)))?;
    let mut endpoint = Endpoint::new(EndpointConfig::default(), None, socket, Arc::new(TokioRuntime))?;
    endpoint.set_default_client_config(config);
    let until = Instant::now() + span;
    let mut all = Vec::new();
    for _ in 0..connections {
        let connection = endpoint.connect(address, "localhost")?.await?;
        all.push(tokio::spawn(ask(connection, length, until)));
    }
    let mut requests = 0;
    for one in all {
        requests += one.await??;
    }
    println!("{{\"requests\":{requests},\"bytes\":{}}}", requests * length);
    Ok(())
}

/// Bodies received until then, and the one under way.
async fn ask(connection: Connection, length: u64, until: Instant) -> Result<u64, Failure> {
    let mut requests = 0;
    while Instant::now() < until {
        let (mut send, mut recv) = connection.open_bi().await?;
        send.write_all(&length.to_be_bytes()).await?;
        send.finish()?;
        let mut received = 0;
        while let Some(chunk) = recv.read_chunk(usize::MAX, true).await? {
            received += chunk.bytes.len() as u64;
        }
        if received != length {
            return Err(format!("{received} of {length} bytes were received").into());
        }
        requests += 1;
    }
    connection.close(VarInt::from_u32(0), b"");
    Ok(requests)
}

/// Trusts every certificate: both ends are on this machine. Signatures are checked, because that costs time.
#[derive(Debug)]
struct Anyone(Arc<CryptoProvider>);

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
