//! Text of any exact length: sentences about water, from a seed.
//!
//! Common words are drawn unevenly, so the text compresses about as well as English on the Web. Knows no markup except
//! paragraphs.

use crate::chance::below;
use std::io::{self, Write};
use units::Rng;

/// Words; draws prefer the front of the list.
const WORDS: &[&str] = &[
    "the",
    "of",
    "and",
    "a",
    "to",
    "in",
    "is",
    "water",
    "that",
    "it",
    "was",
    "for",
    "river",
    "on",
    "are",
    "with",
    "as",
    "they",
    "at",
    "be",
    "this",
    "from",
    "have",
    "or",
    "one",
    "had",
    "by",
    "weir",
    "but",
    "not",
    "what",
    "all",
    "were",
    "when",
    "we",
    "there",
    "can",
    "an",
    "your",
    "which",
    "their",
    "said",
    "if",
    "will",
    "each",
    "about",
    "how",
    "up",
    "out",
    "them",
    "then",
    "flow",
    "many",
    "some",
    "so",
    "these",
    "would",
    "other",
    "into",
    "has",
    "more",
    "two",
    "like",
    "him",
    "see",
    "time",
    "could",
    "no",
    "make",
    "than",
    "first",
    "been",
    "its",
    "who",
    "now",
    "people",
    "made",
    "over",
    "did",
    "down",
    "only",
    "way",
    "find",
    "use",
    "may",
    "stone",
    "long",
    "little",
    "very",
    "after",
    "where",
    "channel",
    "called",
    "just",
    "bridge",
    "gate",
    "level",
    "upstream",
    "spillway",
    "measure",
    "discharge",
    "season",
    "meadow",
    "winter",
    "flood",
    "summer",
    "bank",
    "current",
    "reservoir",
    "engineer",
    "village",
    "between",
    "through",
    "surface",
    "downstream",
    "gravel",
    "sluice",
    "tide",
    "harbor",
    "morning",
    "quiet",
    "threshold",
    "valley",
    "lantern",
    "rain",
    "catchment",
    "estuary",
    "salmon",
    "ladder",
    "timber",
    "keeper",
    "notch",
    "crest",
    "height",
    "depth",
    "gauge",
    "reading",
    "record",
    "page",
    "paper",
    "letter",
    "orchard",
    "market",
    "carriage",
    "northern",
    "southern",
    "western",
    "eastern",
    "wheel",
    "mill",
    "miller",
    "barley",
    "granite",
    "limestone",
    "embankment",
    "culvert",
    "aqueduct",
    "turbine",
    "current",
    "velocity",
    "pressure",
    "gradient",
    "sediment",
    "confluence",
    "tributary",
    "delta",
    "marsh",
    "heron",
    "kingfisher",
    "willow",
    "alder",
    "poplar",
    "footpath",
    "towpath",
    "ferry",
    "barge",
    "anchor",
    "mooring",
    "quay",
    "landing",
    "compass",
    "survey",
    "parish",
    "council",
    "charter",
    "statute",
    "century",
    "quarter",
    "hundred",
    "thousand",
    "fraction",
    "average",
    "variance",
    "curve",
    "rating",
    "formula",
    "exponent",
    "constant",
    "estimate",
    "forecast",
    "warning",
    "siren",
    "evening",
    "shallow",
    "narrow",
    "steady",
    "sudden",
    "gentle",
    "distant",
    "ancient",
    "careful",
    "remarkable",
    "ordinary",
    "necessary",
    "temporary",
    "permanent",
    "seasonal",
    "autumn",
    "spring",
    "thaw",
    "frost",
    "drought",
    "irrigation",
    "terrace",
    "furrow",
    "harvest",
    "granary",
    "bakery",
    "chapel",
    "tavern",
    "workshop",
    "carpenter",
    "mason",
    "surveyor",
    "fisherman",
    "traveler",
    "merchant",
    "scholar",
    "apprentice",
    "daughter",
    "grandfather",
    "neighbor",
    "stranger",
    "witness",
    "question",
    "answer",
    "argument",
    "agreement",
    "promise",
    "silence",
    "murmur",
    "thunder",
    "whisper",
    "shadow",
    "reflection",
    "ripple",
    "eddy",
    "whirlpool",
    "cascade",
    "torrent",
    "trickle",
    "droplet",
    "vapor",
    "mist",
    "haze",
    "cloud",
    "storm",
    "breeze",
    "horizon",
];

/// An endless source of text that does not repeat.
#[derive(Debug)]
pub(super) struct Prose {
    rng: Rng,
    /// Words left in the sentence; 0 before a sentence.
    sentence: u64,
}

impl Prose {
    /// Text of this generator.
    pub(super) fn new(rng: Rng) -> Prose {
        Prose { rng, sentence: 0 }
    }

    /// A uniform integer in `0..n` from the text's generator.
    pub(super) fn below(&mut self, n: u64) -> u64 {
        below(&mut self.rng, n)
    }

    /// One word.
    pub(super) fn word(&mut self) -> &'static str {
        // The smaller of two draws, squared: words at the front come up far more often.
        let n = WORDS.len() as u64;
        let draw = below(&mut self.rng, n).min(below(&mut self.rng, n));
        let draw = draw * below(&mut self.rng, n) / n;
        WORDS[draw as usize]
    }

    /// Writes sentences of exactly `length` bytes, separated by `space`.
    ///
    /// # Errors
    /// Errors of `out`.
    pub(super) fn text(&mut self, length: u64, space: u8, out: &mut impl Write) -> io::Result<()> {
        let mut left = length as usize;
        let mut buffer: Vec<u8> = Vec::with_capacity(24);
        self.sentence = 0;
        while left > 0 {
            buffer.clear();
            let word = self.word();
            if self.sentence == 0 {
                self.sentence = 6 + self.below(9);
                buffer.push(word.as_bytes()[0].to_ascii_uppercase());
                buffer.extend_from_slice(&word.as_bytes()[1..]);
            } else {
                buffer.extend_from_slice(word.as_bytes());
            }
            self.sentence -= 1;
            if left <= buffer.len() + 4 {
                // The last word fills the remaining length and ends the sentence.
                while buffer.len() < left {
                    buffer.push(b'e');
                }
                buffer.truncate(left);
                buffer[left - 1] = if left > 1 { b'.' } else { b' ' };
            } else if self.sentence == 0 {
                buffer.extend_from_slice(&[b'.', space]);
            } else {
                buffer.push(b' ');
            }
            out.write_all(&buffer)?;
            left -= buffer.len();
        }
        Ok(())
    }

    /// Writes plain text of exactly `length` bytes, one sentence per line.
    ///
    /// # Errors
    /// Errors of `out`.
    pub(super) fn lines(&mut self, length: u64, out: &mut impl Write) -> io::Result<()> {
        self.text(length.saturating_sub(1), b'\n', out)?;
        out.write_all(if length > 0 { b"\n" } else { b"" })
    }

    /// Writes HTML paragraphs of exactly `length` bytes.
    ///
    /// # Errors
    /// Errors of `out`.
    pub(super) fn paragraphs(&mut self, length: u64, out: &mut impl Write) -> io::Result<()> {
        const LEAST: u64 = 24;
        let mut left = length;
        while left >= LEAST {
            let mut size = (200 + self.below(600)).min(left);
            if left - size < LEAST {
                size = left;
            }
            out.write_all(b"<p>")?;
            self.text(size - 8, b' ', out)?;
            out.write_all(b"</p>\n")?;
            left -= size;
        }
        // Too short for a paragraph.
        out.write_all(&vec![b'\n'; left as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Seed;

    #[test]
    fn lengths_are_exact() {
        for length in (0..400).chain([5000, 70_001]) {
            let mut out = Vec::new();
            Prose::new(Seed(length).rng())
                .text(length, b'\n', &mut out)
                .unwrap();
            assert_eq!(out.len() as u64, length);
            out.clear();
            Prose::new(Seed(length).rng())
                .paragraphs(length, &mut out)
                .unwrap();
            assert_eq!(out.len() as u64, length);
            let text = String::from_utf8(out).unwrap();
            assert_eq!(text.matches("<p>").count(), text.matches("</p>").count());
        }
    }
}
