//! `set_real_ip_from` and its relatives: which peers may name the client of a request.

use crate::directive::Directive;
use crate::fate::Fate;
use crate::model::Server;
use crate::report::At;
use crate::shared::TRUSTED;
use crate::value::{network, quote};

/// Reads a directive. `None`: it is none of them. `site`: the block that it is in.
pub(super) fn read(directive: &Directive, site: Option<&At>, server: &mut Server) -> Option<Fate> {
    let arg = directive.arg(0);
    let mut share = |key: &str, value: String| {
        server.share(site, directive, key, value);
        Fate::Carried
    };
    Some(match directive.name.as_str() {
        "set_real_ip_from" => match trusted(arg) {
            Ok(network) => share(TRUSTED, network),
            Err(why) => Fate::missing(why),
        },
        "real_ip_header" => match arg.to_ascii_lowercase().as_str() {
            "x-forwarded-for" => share("trusted-field", quote("X-Forwarded-For")),
            "proxy_protocol" => {
                server.proxy_protocol = true;
                Fate::Carried
            }
            _ => Fate::missing("Weir reads the client from `X-Forwarded-For` or `Forwarded`"),
        },
        "real_ip_recursive" if arg == "on" => Fate::unneeded("Weir passes over all trusted addresses"),
        "real_ip_recursive" => Fate::changed("Weir passes over all trusted addresses, not only the last one"),
        _ => return None,
    })
}

fn trusted(text: &str) -> Result<String, String> {
    if text == "unix:" {
        return Ok("unix".to_owned());
    }
    match network(text) {
        Some(network) if network == "all" || network.ends_with("/0") => {
            Err("Weir does not trust all networks: any client could then choose its address".to_owned())
        }
        Some(network) => Ok(network),
        None => Err(format!("`{text}` is not a network in Weir")),
    }
}
