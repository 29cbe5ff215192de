//! What a link's own capture says: pcapng of raw IPv4, read as far as the tests of this folder need it.

use std::path::Path;

/// A segment of TCP, as it passed the command's end of the link.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    /// Seconds since 1970.
    pub(crate) at: f64,
    /// Whether it comes to the command.
    pub(crate) is_down: bool,
    pub(crate) is_syn: bool,
    pub(crate) payload: usize,
    /// The option of that name.
    pub(crate) mss: Option<u16>,
}

/// Every segment of TCP in a capture that `weir link --pcap` wrote.
pub(crate) fn segments(file: &Path) -> Vec<Segment> {
    let bytes = std::fs::read(file).expect("a capture");
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
    let (mut at, mut found) = (0, Vec::new());
    while at < bytes.len() {
        // Enhanced packet blocks: type 6, two words of time in nanoseconds, captured length, packet.
        if word(at) == 6 {
            let nanos = u64::from(word(at + 12)) << 32 | u64::from(word(at + 16));
            let ip = &bytes[at + 28..at + 28 + word(at + 20) as usize];
            found.extend(segment(nanos as f64 / 1e9, ip));
        }
        at += word(at + 4) as usize;
    }
    found
}

fn segment(at: f64, ip: &[u8]) -> Option<Segment> {
    let length = usize::from(u16::from_be_bytes([ip[2], ip[3]]));
    // Over an offloading interface a length that does not fit is zero.
    let length = if length == 0 { ip.len() } else { length };
    let tcp = &ip[usize::from(ip[0] & 15) * 4..length];
    if ip[9] != 6 {
        return None;
    }
    let header = usize::from(tcp[12] >> 4) * 4;
    let (mut options, mut mss) = (&tcp[20..header], None);
    while let [kind, rest @ ..] = options
        && *kind != 0
    {
        options = match (kind, rest) {
            (1, _) => rest,
            (2, [4, high, low, ..]) => {
                mss = Some(u16::from_be_bytes([*high, *low]));
                &rest[3..]
            }
            (_, [size, ..]) => &rest[usize::from(*size) - 1..],
            _ => &[],
        };
    }
    Some(Segment {
        at,
        is_down: ip[16..20] == [198, 18, 0, 2],
        is_syn: tcp[13] & 2 != 0,
        payload: tcp.len() - header,
        mss,
    })
}
