//! An authority of this machine's own (`--tls=internal`), and a certificate of it for localhost and this machine's names:
//! for development, where no CA can help.
//!
//! The authority lasts ten years, so that it is trusted once; its key never leaves the folder. A certificate lasts 90
//! days and is renewed as one of a CA is.

use super::store::{self, Store};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, date_time_ymd,
};
use server::clock::Clock;
use std::io;
use units::UnixTime;
use zeroize::Zeroizing;

/// Days that the authority and its certificates last.
const ROOT_DAYS: i64 = 3_650;
const LEAF_DAYS: i64 = 90;

/// Makes a certificate, and the authority if there is none. `names` are names of this machine besides localhost.
///
/// # Errors
/// Of the system, or that the authority in the folder cannot be used.
pub(super) fn make(store: &Store, names: &[String], now: UnixTime) -> io::Result<()> {
    let unusable = |error: rcgen::Error| {
        let why = format!(
            "the authority in `{}` cannot be used: {error}; remove the file and its key to make a new one",
            store.root().display()
        );
        io::Error::other(why)
    };
    if !store.root().exists() || !store.root_key().exists() {
        let (root, key) = authority(now).map_err(unusable)?;
        store::replace(&store.root_key(), key.as_bytes())?;
        store::replace(&store.root(), root.as_bytes())?;
    }
    let root = std::fs::read_to_string(store.root())?;
    let key = Zeroizing::new(std::fs::read_to_string(store.root_key())?);
    let key = KeyPair::from_pem(&key).map_err(unusable)?;
    let issuer = Issuer::from_ca_cert_pem(&root, key).map_err(unusable)?;
    let leaf_key = KeyPair::generate().map_err(unusable)?;
    let known = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
    let mut parameters = CertificateParams::new([&known, names].concat()).map_err(unusable)?;
    parameters.distinguished_name = DistinguishedName::new();
    parameters.use_authority_key_identifier_extension = true;
    parameters.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    valid_for(&mut parameters, now, LEAF_DAYS);
    let leaf = parameters.signed_by(&leaf_key, &issuer).map_err(unusable)?;
    let pem = format!("{}{root}{}", leaf.pem(), leaf_key.serialize_pem());
    store::replace(&store.pair(), pem.as_bytes())
}

/// An authority that signs nothing but certificates of servers: certificate and key, PEM.
fn authority(now: UnixTime) -> Result<(String, String), rcgen::Error> {
    let key = KeyPair::generate()?;
    let mut parameters = CertificateParams::default();
    parameters.distinguished_name = DistinguishedName::new();
    let name = format!(
        "Weir on {}",
        super::host_name().unwrap_or_else(|| "this machine".to_owned())
    );
    parameters.distinguished_name.push(DnType::CommonName, name);
    parameters.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    valid_for(&mut parameters, now, ROOT_DAYS);
    let made = parameters.self_signed(&key)?;
    Ok((made.pem(), key.serialize_pem()))
}

/// Valid from yesterday, for clocks that are behind, for so many days.
fn valid_for(parameters: &mut CertificateParams, now: UnixTime, days: i64) {
    let day = |days: i64| {
        let mut clock = Clock::default();
        clock.set(UnixTime::from_secs(now.secs + days * 86_400));
        let number = |from: usize, to: usize| {
            let digits = clock.iso()[from..to].iter();
            digits.fold(0_u16, |sum, digit| sum * 10 + u16::from(digit - b'0'))
        };
        let [month, day] = [number(5, 7), number(8, 10)].map(|number| u8::try_from(number).unwrap_or(1));
        date_time_ymd(i32::from(number(0, 4)), month, day)
    };
    parameters.not_before = day(-1);
    parameters.not_after = day(days);
}
