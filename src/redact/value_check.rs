//! Checks of values that a pattern cannot do: check digits, the look of a random token, private networks.

use std::net::{IpAddr, Ipv4Addr};

use knowledge::playbook::ValueCheck;

/// Minimum bits of information per character of a random token, by the frequency of its characters.
const BITS: f64 = 3.5;
/// Minimum share of the neighbouring characters between which a word ends: 0.44 in random text, below 0.3 in names.
const ENDS: f64 = 0.3;
/// Maximum small letters in a row; names have words.
const LETTERS: usize = 5;

/// Returns true if a value passes the check.
pub(super) fn passes(check: ValueCheck, value: &str) -> bool {
    match check {
        ValueCheck::Luhn => luhn(value),
        ValueCheck::Iban => iban(value),
        ValueCheck::Random => random(value),
        ValueCheck::PublicAddress => public(value),
    }
}

/// Checks the last digit of a card number of 13 to 19 digits. Source: ISO/IEC 7812-1, annex B.
fn luhn(value: &str) -> bool {
    let digits: Vec<u32> = value.chars().filter_map(|c| c.to_digit(10)).collect();
    let doubled = |(at, digit): (usize, &u32)| match (at % 2, *digit * 2) {
        (0, _) => *digit,
        (_, twice) if twice > 9 => twice - 9,
        (_, twice) => twice,
    };
    let sum: u32 = digits.iter().rev().enumerate().map(doubled).sum();
    let varied = digits.iter().any(|digit| Some(digit) != digits.first());
    (13..=19).contains(&digits.len()) && sum.is_multiple_of(10) && varied
}

/// Checks an account number, also with a year or a word of up to four characters behind it, which looks like its last
/// group.
fn iban(mut value: &str) -> bool {
    while !account(value) {
        match value.rsplit_once(' ') {
            Some((before, last)) if last.len() <= 4 => value = before,
            _ => return false,
        }
    }
    true
}

/// Checks the two digits behind the country. Source: ISO 13616-1, ISO/IEC 7064 (MOD 97-10).
fn account(value: &str) -> bool {
    let all: Vec<char> = value.chars().filter(|c| c.is_ascii_alphanumeric()).collect();
    if !(15..=34).contains(&all.len()) {
        return false;
    }
    let moved = all[4..].iter().chain(&all[..4]);
    let remainder = moved.filter_map(|c| c.to_digit(36)).fold(0, |sum, digit| {
        let places = if digit > 9 { 100 } else { 10 };
        (sum * places + digit) % 97
    });
    remainder == 1
}

/// Tells a random token from a name, a path or a number. Hexadecimal text does not pass: commits and digests look so.
fn random(value: &str) -> bool {
    let bytes = value.as_bytes();
    let count = |of: fn(&u8) -> bool| bytes.iter().filter(|b| of(b)).count();
    if count(u8::is_ascii_digit) < 2 || count(u8::is_ascii_uppercase) < 2 || count(u8::is_ascii_lowercase) < 2 {
        return false;
    }
    let (mut row, mut longest, mut ends, mut pairs) = (0, 0, 0, 0);
    for (at, byte) in bytes.iter().enumerate() {
        row = if byte.is_ascii_lowercase() { row + 1 } else { 0 };
        longest = longest.max(row);
        let before = at.checked_sub(1).map(|before| bytes[before]).filter(u8::is_ascii_alphanumeric);
        if let Some(before) = before.filter(|_| byte.is_ascii_alphanumeric()) {
            pairs += 1;
            let goes_on = before.is_ascii_alphabetic() && byte.is_ascii_lowercase()
                || before.is_ascii_uppercase() && byte.is_ascii_uppercase()
                || before.is_ascii_digit() && byte.is_ascii_digit();
            ends += usize::from(!goes_on);
        }
    }
    longest <= LETTERS && ends as f64 >= ENDS * f64::from(pairs) && bits(bytes) >= BITS
}

/// Returns the bits of information per byte, by the frequency of the bytes (Shannon).
fn bits(bytes: &[u8]) -> f64 {
    let mut counts = [0_u32; 256];
    bytes.iter().for_each(|byte| counts[usize::from(*byte)] += 1);
    let all = bytes.len() as f64;
    let shares = counts.iter().filter(|count| **count > 0).map(|count| f64::from(*count) / all);
    shares.map(|share| -share * share.log2()).sum()
}

/// Returns true for an address, with or without a port, that is not of a private network or the machine itself.
fn public(value: &str) -> bool {
    let value = value.trim_matches(['[', ']']);
    let address = value.parse().ok().or_else(|| value.rsplit_once(':')?.0.trim_matches(['[', ']']).parse().ok());
    // A server that listens on `::` writes IPv4 as ::ffff:10.0.0.7.
    match address.map(|address: IpAddr| address.to_canonical()) {
        Some(IpAddr::V4(address)) => {
            // RFC 6598: between a provider and its customers, also used for pods.
            let shared = address.octets()[0] == 100 && address.octets()[1] & 0xC0 == 64;
            let own = address.is_private() || address.is_loopback() || address.is_link_local();
            !(own || shared || address.is_unspecified() || address == Ipv4Addr::BROADCAST)
        }
        Some(IpAddr::V6(address)) => {
            let own = address.is_unique_local() || address.is_unicast_link_local();
            !(own || address.is_loopback() || address.is_unspecified())
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn check_digits_tell_numbers_from_cards_and_accounts() {
        for card in ["4111111111111111", "4111 1111 1111 1111", "3782-822463-10005", "5555555555554444"] {
            assert!(luhn(card), "{card}");
        }
        for other in ["4111111111111112", "0000000000000000", "79", "1763607610123456789012"] {
            assert!(!luhn(other), "{other}");
        }
        assert!(iban("DE89 3704 0044 0532 0130 00") && iban("GB82WEST12345698765432"));
        assert!(iban("ES91 2100 0418 4502 0005 1332 2026") && iban("ES9121000418450200051332 PAID"));
        assert!(!iban("DE88 3704 0044 0532 0130 00") && !iban("DE89") && !iban("DE89 3704"));
    }

    #[test]
    fn names_and_digests_do_not_look_random() {
        for token in ["aX9fQ2LmZ7pRt4VbN8sKcD3wYh6JgE1u", "Qm9vc3QtVGhpcy1Jcy1Ob3QtUmVhbA9zX7kP2"] {
            assert!(random(token), "{token}");
        }
        for name in [
            "CompressedTensorsW8A8Fp8MoEMethodCutlass",
            "Qwen3VLMoeForConditionalGeneration",
            "9fceb02d0ae598e95dc970b74767f19372d61af8",
            "DeepSeek-R1-Distill-Qwen-32B-quantized-w4a16",
            "01JD3V7M8QK2W4X6Y8Z0A1B2C3",
        ] {
            assert!(!random(name), "{name}");
        }
    }

    #[test]
    fn addresses_of_pods_and_nodes_are_not_public() {
        for address in ["203.0.113.9", "203.0.113.9:51234", "::ffff:203.0.113.9", "2001:db8::7", "[2001:db8::7]:443"] {
            assert!(public(address), "{address}");
        }
        for address in [
            "10.0.0.7",
            "172.18.3.4:80",
            "192.168.1.2",
            "100.64.0.9",
            "127.0.0.1",
            "fd00::1",
            "fe80::1",
            "::ffff:10.0.0.7",
            "x",
            "",
        ] {
            assert!(!public(address), "{address}");
        }
    }
}
