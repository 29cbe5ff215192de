//! Values of Weir's configuration: how TOML spells them, and which ones Weir accepts. The rules are those of
//! `server::config`, which the caller applies to the whole result once more.

use core::fmt::Write as _;
use std::net::IpAddr;

/// A TOML string.
pub(crate) fn quote(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04X}", c as u32);
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// A TOML list of strings.
pub(crate) fn list(texts: &[String]) -> String {
    let quoted: Vec<String> = texts.iter().map(|text| quote(text)).collect();
    format!("[{}]", quoted.join(", "))
}

/// Fields that Weir computes for each response.
const COMPUTED: [&str; 13] = [
    "accept-ranges",
    "connection",
    "content-encoding",
    "content-length",
    "content-range",
    "content-type",
    "date",
    "etag",
    "last-modified",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "vary",
];

/// Whether a byte may be part of a token, as the name of a field is (RFC 9110 section 5.6.2).
pub(crate) fn is_token(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b)
}

/// A field line, or why Weir cannot send it.
pub(crate) fn field(name: &str, value: &str) -> Result<String, String> {
    if COMPUTED.iter().any(|known| name.eq_ignore_ascii_case(known)) {
        return Err(format!("Weir computes `{name}` for each response"));
    }
    if name.is_empty() || !name.bytes().all(is_token) {
        return Err(format!("`{name}` is not a field name"));
    }
    let value = value.split_whitespace().collect::<Vec<_>>().join(" ");
    if !value.bytes().all(|b| (0x20..0x7f).contains(&b)) {
        return Err(format!(
            "the value of `{name}` has characters other than visible ASCII"
        ));
    }
    Ok(format!("{name}: {value}"))
}

/// Whether Weir removes a field of this name from responses.
///
/// # Errors
/// Why not.
pub(crate) fn removable(name: &str) -> Result<(), String> {
    const OF_CONNECTION: [&str; 7] = [
        "http2-settings",
        "keep-alive",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "via",
    ];
    let mut kept = COMPUTED.iter().chain(&OF_CONNECTION);
    if kept.any(|known| name.eq_ignore_ascii_case(known)) {
        return Err(format!(
            "Weir does not remove `{name}`, which belongs to the message or its content"
        ));
    }
    match !name.is_empty() && name.bytes().all(|b| is_token(b) && b != b'*') {
        true => Ok(()),
        false => Err(format!(
            "Weir removes fields by their whole names, and not `{name}`"
        )),
    }
}

/// Whether a text is an extension for `[types]`: the part of a name behind its last dot.
pub(crate) fn is_extension(text: &str) -> bool {
    let is_part = |b: u8| b.is_ascii_graphic() && !b"./\\".contains(&b);
    !text.is_empty() && text.bytes().all(is_part)
}

/// Whether a text is a media type for `[types]`, perhaps with parameters (RFC 9110 section 8.3.1).
pub(crate) fn is_media_type(text: &str) -> bool {
    let is_token = |text: &str| !text.is_empty() && text.bytes().all(is_token);
    let is_quoted = |text: &str| {
        let inner = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
        let is_plain = |b: u8| (0x20..0x7f).contains(&b) && !b"\"\\;".contains(&b);
        inner.is_some_and(|inner| inner.bytes().all(is_plain))
    };
    let is_parameter = |text: &str| {
        let pair = text.trim().split_once('=');
        pair.is_some_and(|(name, value)| is_token(name) && (is_token(value) || is_quoted(value)))
    };
    let mut parts = text.trim().split(';');
    let essence = parts.next().unwrap_or_default().trim_end();
    let is_type = essence
        .split_once('/')
        .is_some_and(|(kind, subtype)| is_token(kind) && is_token(subtype));
    is_type && parts.all(is_parameter)
}

/// A network in Weir's spelling: without bits behind its prefix. `None`: this is no network.
pub(crate) fn network(text: &str) -> Option<String> {
    if text == "all" {
        return Some("all".to_owned());
    }
    let (address, bits) = match text.split_once('/') {
        Some((address, bits)) => (address, Some(bits.parse::<u32>().ok()?)),
        None => (text, None),
    };
    let masked = match (address.parse().ok()?, bits) {
        (IpAddr::V4(ip), Some(bits @ 0..=32)) => {
            let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
            format!("{}/{bits}", std::net::Ipv4Addr::from(u32::from(ip) & mask))
        }
        // An IPv4 address mapped into IPv6 has another form in Weir.
        (IpAddr::V6(ip), _) if ip.to_ipv4_mapped().is_some() => return None,
        (IpAddr::V6(ip), Some(bits @ 0..=128)) => {
            let mask = u128::MAX.checked_shl(128 - bits).unwrap_or(0);
            format!("{}/{bits}", std::net::Ipv6Addr::from(u128::from(ip) & mask))
        }
        (ip, None) => ip.to_string(),
        _ => return None,
    };
    Some(masked)
}

/// Whether a network in Weir's spelling contains all of another one.
pub(crate) fn contains(outer: &str, inner: &str) -> bool {
    if outer == "all" || outer == inner {
        return true;
    }
    // The bits of the address, how many there are, and how many of them count.
    let read = |text: &str| -> Option<(u128, u32, u32)> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse::<u32>().ok()?)),
            None => (text, None),
        };
        let (address, width) = match address.parse().ok()? {
            IpAddr::V4(ip) => (u128::from(u32::from(ip)), 32),
            IpAddr::V6(ip) => (u128::from(ip), 128),
        };
        Some((address, width, bits.unwrap_or(width)))
    };
    let (Some((start, width, bits)), Some((address, other, more))) = (read(outer), read(inner)) else {
        return false;
    };
    let rest = width.saturating_sub(bits);
    width == other && bits <= more && (start ^ address).checked_shr(rest).unwrap_or(0) == 0
}

/// Whether an address is one of a private network (RFC 1918, RFC 4193), of a link, or of this machine.
pub(crate) fn is_private(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.is_private() || ip.is_link_local() || ip.is_loopback(),
        IpAddr::V6(ip) => {
            let first = ip.segments()[0];
            ip.is_loopback() || (first & 0xfe00) == 0xfc00 || (first & 0xffc0) == 0xfe80
        }
    }
}

/// Whether a text is a host name for `names`.
pub(crate) fn is_host_name(text: &str) -> bool {
    let name = text.strip_prefix("*.").unwrap_or(text);
    let is_label = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
    !name.is_empty() && !name.starts_with('.') && name.bytes().all(is_label)
}

/// Whether a text is a path of the site: absolute, resolved, without query.
pub(crate) fn is_site_path(text: &str) -> bool {
    let is_plain = |b: u8| (0x21..0x7f).contains(&b) && !b"?#\\$%".contains(&b);
    text.starts_with('/')
        && !text.ends_with('/')
        && text.bytes().all(is_plain)
        && text
            .split('/')
            .skip(1)
            .all(|part| !matches!(part, "" | "." | ".."))
}

/// Whether a file is a program, whose text clients must not get.
pub(crate) fn is_program(file: &str) -> bool {
    let file = file.to_ascii_lowercase();
    [".php", ".cgi", ".pl", ".py", ".rb", ".asp", ".aspx", ".jsp"]
        .iter()
        .any(|suffix| file.ends_with(suffix))
}

/// Whether a path of the site names a file to send with an error. One without an extension is rarely a file: a program or a
/// rewrite answers it.
pub(crate) fn is_page(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    is_site_path(path) && name.contains('.') && !is_program(path)
}

/// Why a path that is none of [`is_page`] is no error page.
pub(crate) const NO_PAGE: &str = "an error page of Weir is a file of the site; the converter takes a name without an extension for a program";

/// Why a text that the configuration has as a response is lost.
pub(crate) const NO_TEXT: &str = "the converter has no fixed answer for these requests";

/// Why nothing takes the place of such a text at `/`.
pub(crate) const TEXT_AT_START: &str =
    "a rule of Weir for `/` is for all paths, so the result answers `/` from the root or an upstream";

/// A time as Weir writes it, from a number with nginx's or Apache's unit. `None`: not a time.
pub(crate) fn seconds(text: &str) -> Option<u64> {
    let mut total = 0_u64;
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let number: u64 = rest.get(..digits)?.parse().ok()?;
        rest = rest.get(digits..)?;
        let letters = rest.bytes().take_while(u8::is_ascii_alphabetic).count();
        let (unit, after) = rest.split_at(letters);
        rest = after.trim_start();
        let span = match unit {
            "ms" => number.div_ceil(1000),
            "" | "s" => number,
            "m" | "min" => number.checked_mul(60)?,
            "h" => number.checked_mul(3_600)?,
            "d" => number.checked_mul(86_400)?,
            "w" => number.checked_mul(604_800)?,
            "M" => number.checked_mul(2_592_000)?,
            "y" => number.checked_mul(31_536_000)?,
            _ => return None,
        };
        total = total.checked_add(span)?;
    }
    (!text.is_empty()).then_some(total)
}

/// A number of bytes from `512`, `10m`, `1g`. `None`: not a size.
pub(crate) fn bytes(text: &str) -> Option<u64> {
    let text = text.to_ascii_lowercase();
    let text = text
        .strip_suffix("ib")
        .or_else(|| text.strip_suffix('b'))
        .unwrap_or(&text);
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let number: u64 = text.get(..digits)?.parse().ok()?;
    let factor = match text.get(digits..)? {
        "" => 1,
        "k" => 1 << 10,
        "m" => 1 << 20,
        "g" => 1 << 30,
        _ => return None,
    };
    number.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_those_of_toml() {
        assert_eq!(quote("a\"b\\c\n\u{1}"), r#""a\"b\\c\n\u0001""#);
    }

    #[test]
    fn types_are_those_of_the_table() {
        for (extension, is_it) in [
            ("html", true),
            ("x-1", true),
            ("wasm.gz", false),
            ("a/b", false),
            ("", false),
        ] {
            assert_eq!(is_extension(extension), is_it, "{extension}");
        }
        for (text, is_it) in [
            ("text/html", true),
            ("text/html; charset=utf-8", true),
            ("text/html;charset=\"Windows-1252\"", true),
            ("application/vnd.example+json;profile=a;q=1", true),
            ("", false),
            ("html", false),
            ("text/", false),
            ("text/html; charset", false),
            ("text/html, text/plain", false),
            ("text/html; charset=\"a\\\"", false),
        ] {
            assert_eq!(is_media_type(text), is_it, "{text}");
        }
    }

    #[test]
    fn networks_have_no_bits_behind_their_prefix() {
        for (text, network_of) in [
            ("all", Some("all")),
            ("192.0.2.7", Some("192.0.2.7")),
            ("192.0.2.7/24", Some("192.0.2.0/24")),
            ("10.0.0.0/0", Some("0.0.0.0/0")),
            ("2001:db8::1/32", Some("2001:db8::/32")),
            ("2001:db8::/129", None),
            ("::ffff:1.2.3.4", None),
            ("unix:", None),
            ("localhost", None),
        ] {
            assert_eq!(network(text).as_deref(), network_of, "{text}");
        }
    }

    #[test]
    fn a_network_contains_those_with_its_prefix() {
        for (outer, inner, expected) in [
            ("all", "192.0.2.7", true),
            ("all", "unix", true),
            ("10.0.0.0/8", "10.1.0.0/16", true),
            ("10.0.0.0/8", "10.0.0.0/8", true),
            ("10.0.0.0/8", "11.0.0.0/16", false),
            ("10.1.0.0/16", "10.0.0.0/8", false),
            ("0.0.0.0/0", "192.0.2.7", true),
            ("0.0.0.0/0", "2001:db8::1", false),
            ("::/0", "2001:db8::1", true),
            ("2001:db8::/32", "2001:db8:1::/48", true),
            ("192.0.2.7", "192.0.2.7", true),
            ("192.0.2.7", "192.0.2.8", false),
            ("10.0.0.0/8", "all", false),
            ("unix", "10.0.0.1", false),
        ] {
            assert_eq!(contains(outer, inner), expected, "{outer} {inner}");
        }
    }

    #[test]
    fn private_addresses_are_those_of_the_rfcs() {
        for (text, expected) in [
            ("10.1.2.3", true),
            ("172.16.0.1", true),
            ("172.32.0.1", false),
            ("192.168.0.1", true),
            ("169.254.0.1", true),
            ("127.0.0.1", true),
            ("0.0.0.0", false),
            ("192.0.2.1", false),
            ("::1", true),
            ("::", false),
            ("fd00::1", true),
            ("fe80::1", true),
            ("2001:db8::1", false),
        ] {
            assert_eq!(is_private(text.parse().unwrap()), expected, "{text}");
        }
    }

    #[test]
    fn times_and_sizes_have_units() {
        for (text, value) in [
            ("30", Some(30)),
            ("1h 30m", Some(5_400)),
            ("1d", Some(86_400)),
            ("1500ms", Some(2)),
            ("", None),
            ("x", None),
            ("99999999999999999999", None),
        ] {
            assert_eq!(seconds(text), value, "{text}");
        }
        for (text, value) in [
            ("8k", Some(8_192)),
            ("10M", Some(10 << 20)),
            ("10MB", Some(10 << 20)),
            ("0", Some(0)),
            ("k", None),
        ] {
            assert_eq!(bytes(text), value, "{text}");
        }
    }

    #[test]
    fn fields_that_weir_computes_are_no_lines() {
        assert_eq!(field("X-A", "b  c").as_deref(), Ok("X-A: b c"));
        for (name, value) in [("Vary", "x"), ("", "x"), ("a b", "x"), ("X-A", "\u{e9}")] {
            assert!(field(name, value).is_err(), "{name}");
        }
    }
}
