//! Reads frames (RFC 9000, section 19; RFC 9221 for DATAGRAM).

use super::varint;
use crate::quic_facts::{ErrorSpace, QuicFrame, StreamType};

/// Limit on the bytes kept of a reason phrase.
const REASON_MAX: usize = 256;

/// Whether the peer must acknowledge a packet with this frame (RFC 9002, section 2).
pub(super) fn is_eliciting(frame: &QuicFrame) -> bool {
    !matches!(
        frame,
        QuicFrame::Padding { .. } | QuicFrame::Ack { .. } | QuicFrame::ConnectionClose { .. }
    )
}

/// Text of bytes in hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The frame at the front of `input`, its data, and the rest. `None` if the bytes are no frame that is known here.
pub(crate) fn next(input: &[u8]) -> Option<(QuicFrame, &[u8], &[u8])> {
    let (kind, mut rest) = varint(input)?;
    let mut number = || {
        let (value, after) = varint(rest)?;
        rest = after;
        Some(value)
    };
    let plain = |frame, rest| Some((frame, &[][..], rest));
    let frame = match kind {
        0 => {
            let run = input.iter().take_while(|byte| **byte == 0).count();
            let length = run as u64;
            return plain(QuicFrame::Padding { length }, &input[run..]);
        }
        1 => QuicFrame::Ping,
        2 | 3 => {
            let (largest, delay, count, first) = (number()?, number()?, number()?, number()?);
            let mut low = largest.checked_sub(first)?;
            let mut acked_ranges = vec![(low, largest)];
            for _ in 0..count {
                // Section 19.3.1: between two ranges lies a packet more than the gap says.
                let (gap, len) = (number()?, number()?);
                let high = low.checked_sub(gap.checked_add(2)?)?;
                low = high.checked_sub(len)?;
                acked_ranges.push((low, high));
            }
            if kind == 3 {
                for _ in 0..3 {
                    number()?;
                }
            }
            QuicFrame::Ack { delay, acked_ranges }
        }
        4 => QuicFrame::ResetStream {
            stream_id: number()?,
            error_code: number()?,
            final_size: number()?,
        },
        5 => QuicFrame::StopSending {
            stream_id: number()?,
            error_code: number()?,
        },
        6 => {
            let (offset, length) = (number()?, number()?);
            let (data, rest) = split(rest, length)?;
            return Some((QuicFrame::Crypto { offset, length }, data, rest));
        }
        7 => {
            let length = number()?;
            let (_, rest) = split(rest, length)?;
            return plain(QuicFrame::NewToken { length }, rest);
        }
        0x08..=0x0f => {
            let stream_id = number()?;
            let offset = if kind & 4 != 0 { number()? } else { 0 };
            let length = if kind & 2 != 0 { Some(number()?) } else { None };
            let length = length.unwrap_or(rest.len() as u64);
            let (data, rest) = split(rest, length)?;
            // Section 4.5: the final size has 62 bits.
            offset.checked_add(length).filter(|end| *end < 1 << 62)?;
            let fin = kind & 1 != 0;
            let frame = QuicFrame::Stream {
                stream_id,
                offset,
                length,
                fin,
            };
            return Some((frame, data, rest));
        }
        0x10 => QuicFrame::MaxData { maximum: number()? },
        0x11 => QuicFrame::MaxStreamData {
            stream_id: number()?,
            maximum: number()?,
        },
        0x12 | 0x13 => QuicFrame::MaxStreams {
            stream_type: stream_type(kind),
            maximum: number()?,
        },
        0x14 => QuicFrame::DataBlocked { limit: number()? },
        0x15 => QuicFrame::StreamDataBlocked {
            stream_id: number()?,
            limit: number()?,
        },
        0x16 | 0x17 => QuicFrame::StreamsBlocked {
            stream_type: stream_type(kind),
            limit: number()?,
        },
        0x18 => {
            let (sequence_number, retire_prior_to) = (number()?, number()?);
            let (&len, after) = rest.split_first()?;
            let (id, after) = split(after, u64::from(len))?;
            let (_, after) = split(after, 16)?;
            let frame = QuicFrame::NewConnectionId {
                sequence_number,
                retire_prior_to,
                connection_id: hex(id),
            };
            return Some((frame, id, after));
        }
        0x19 => QuicFrame::RetireConnectionId {
            sequence_number: number()?,
        },
        0x1a | 0x1b => {
            let (_, rest) = split(rest, 8)?;
            let frame = if kind == 0x1a {
                QuicFrame::PathChallenge
            } else {
                QuicFrame::PathResponse
            };
            return plain(frame, rest);
        }
        0x1c | 0x1d => {
            let error_code = number()?;
            let error_space = if kind == 0x1c {
                number()?;
                ErrorSpace::Transport
            } else {
                ErrorSpace::Application
            };
            let len = number()?;
            let (reason, rest) = split(rest, len)?;
            let reason = String::from_utf8_lossy(&reason[..reason.len().min(REASON_MAX)]).into_owned();
            let frame = QuicFrame::ConnectionClose {
                error_space,
                error_code,
                reason,
            };
            return plain(frame, rest);
        }
        0x1e => QuicFrame::HandshakeDone,
        // Without these two, which `quinn` sends, the frames behind them would be unread.
        0x1f => QuicFrame::ImmediateAck,
        0xaf => QuicFrame::AckFrequency {
            sequence_number: number()?,
            ack_eliciting_threshold: number()?,
            request_max_ack_delay: number()?,
            reordering_threshold: number()?,
        },
        0x30 | 0x31 => {
            let length = if kind == 0x31 {
                number()?
            } else {
                rest.len() as u64
            };
            let (_, rest) = split(rest, length)?;
            return plain(QuicFrame::Datagram { length }, rest);
        }
        _ => return None,
    };
    plain(frame, rest)
}

fn stream_type(kind: u64) -> StreamType {
    if kind & 1 == 0 {
        StreamType::Bidirectional
    } else {
        StreamType::Unidirectional
    }
}

fn split(bytes: &[u8], len: u64) -> Option<(&[u8], &[u8])> {
    bytes.split_at_checked(usize::try_from(len).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One frame of each type, and its bytes.
    fn all() -> Vec<(Vec<u8>, QuicFrame)> {
        use QuicFrame as F;
        let close = |error_space, error_code| F::ConnectionClose {
            error_space,
            error_code,
            reason: "ab".to_owned(),
        };
        let stream = |offset, length, fin| F::Stream {
            stream_id: 4,
            offset,
            length,
            fin,
        };
        let ack = || F::Ack {
            delay: 5,
            acked_ranges: vec![(8, 10), (3, 4)],
        };
        let id = [&[0x18, 2, 1, 3, 7, 8, 9][..], &[0; 16]].concat();
        vec![
            (vec![1], F::Ping),
            (vec![2, 10, 5, 1, 2, 2, 1], ack()),
            (vec![3, 10, 5, 1, 2, 2, 1, 0, 0, 0], ack()),
            (
                vec![4, 8, 1, 9],
                F::ResetStream {
                    stream_id: 8,
                    error_code: 1,
                    final_size: 9,
                },
            ),
            (
                vec![5, 8, 1],
                F::StopSending {
                    stream_id: 8,
                    error_code: 1,
                },
            ),
            (vec![6, 2, 1, 7], F::Crypto { offset: 2, length: 1 }),
            (vec![7, 1, 7], F::NewToken { length: 1 }),
            (vec![0x0a, 4, 2, 7, 7], stream(0, 2, false)),
            (vec![0x0f, 4, 3, 0], stream(3, 0, true)),
            (vec![0x10, 9], F::MaxData { maximum: 9 }),
            (
                vec![0x11, 4, 9],
                F::MaxStreamData {
                    stream_id: 4,
                    maximum: 9,
                },
            ),
            (
                vec![0x12, 9],
                F::MaxStreams {
                    stream_type: StreamType::Bidirectional,
                    maximum: 9,
                },
            ),
            (
                vec![0x13, 9],
                F::MaxStreams {
                    stream_type: StreamType::Unidirectional,
                    maximum: 9,
                },
            ),
            (vec![0x14, 9], F::DataBlocked { limit: 9 }),
            (
                vec![0x15, 4, 9],
                F::StreamDataBlocked {
                    stream_id: 4,
                    limit: 9,
                },
            ),
            (
                vec![0x16, 9],
                F::StreamsBlocked {
                    stream_type: StreamType::Bidirectional,
                    limit: 9,
                },
            ),
            (
                id,
                F::NewConnectionId {
                    sequence_number: 2,
                    retire_prior_to: 1,
                    connection_id: "070809".to_owned(),
                },
            ),
            (vec![0x19, 9], F::RetireConnectionId { sequence_number: 9 }),
            ([&[0x1a][..], &[0; 8]].concat(), F::PathChallenge),
            ([&[0x1b][..], &[0; 8]].concat(), F::PathResponse),
            (vec![0x1c, 7, 6, 2, b'a', b'b'], close(ErrorSpace::Transport, 7)),
            (
                vec![0x1d, 0x41, 0, 2, b'a', b'b'],
                close(ErrorSpace::Application, 256),
            ),
            (vec![0x1e], F::HandshakeDone),
            (vec![0x1f], F::ImmediateAck),
            (
                vec![0x40, 0xaf, 1, 2, 3, 4],
                F::AckFrequency {
                    sequence_number: 1,
                    ack_eliciting_threshold: 2,
                    request_max_ack_delay: 3,
                    reordering_threshold: 4,
                },
            ),
            (vec![0x31, 2, 7, 7], F::Datagram { length: 2 }),
        ]
    }

    #[test]
    fn frames_are_read_one_by_one_and_cut_ones_not_at_all() {
        let whole: Vec<u8> = all().into_iter().flat_map(|(bytes, _)| bytes).collect();
        let mut rest = &whole[..];
        for (bytes, want) in all() {
            let (frame, _, after) = next(rest).expect("a frame");
            assert_eq!(frame, want);
            assert_eq!(rest.len() - after.len(), bytes.len(), "{frame:?}");
            for cut in 0..bytes.len() {
                assert_eq!(next(&bytes[..cut]), None, "{frame:?} cut at {cut}");
            }
            rest = after;
        }
        assert!(rest.is_empty());
    }

    #[test]
    fn data_runs_to_the_end_of_the_packet_without_a_length() {
        let (frame, data, rest) = next(&[0x0c, 4, 3, 7, 7]).expect("STREAM");
        let want = QuicFrame::Stream {
            stream_id: 4,
            offset: 3,
            length: 2,
            fin: false,
        };
        assert_eq!((frame, data, rest), (want, &[7, 7][..], &[][..]));
        let (padding, _, rest) = next(&[0, 0, 0, 1]).expect("PADDING");
        assert_eq!((padding, rest), (QuicFrame::Padding { length: 3 }, &[1][..]));
        // Acknowledged ranges below zero, and an unknown type.
        assert_eq!(next(&[2, 1, 0, 0, 2]), None);
        assert_eq!(next(&[2, 9, 0, 1, 2, 6, 0]), None);
        assert_eq!(next(&[0x40, 0x60, 0]), None);
    }
}
