//! Numbers formatted for people.

use super::Unit;

/// Formats a measured value in its unit, rounded: `97 %`, `8.2 s`, `120 ms`, `3.9k tokens`, `41`.
pub fn format_value(value: f64, unit: Unit) -> String {
    in_unit(value, unit, short)
}

/// Formats a threshold in its unit with four significant digits, since it must read as what is compared: `12.5 s`.
pub fn format_threshold(value: f64, unit: Unit) -> String {
    in_unit(value, unit, four_digits)
}

/// Formats a part of some seconds in the unit of the whole: `0.2 s` of 6.9 s.
pub fn format_part(seconds_of: f64, total: f64) -> String {
    if total >= 1.0 { format!("{seconds_of:.1} s") } else { seconds(seconds_of, short) }
}

/// Rounds a number and formats it.
type Digits = fn(f64) -> String;

fn in_unit(value: f64, unit: Unit, digits: Digits) -> String {
    match unit {
        Unit::Ratio => format!("{} %", digits(value * 100.0)),
        Unit::Seconds => seconds(value, digits),
        Unit::Tokens => format!("{} tokens", scaled(value, digits)),
        Unit::Factor => format!("{}x", digits(value)),
        Unit::TokensPerSecond => format!("{} tokens/s", scaled(value, digits)),
        Unit::Requests | Unit::Count => scaled(value, digits),
        Unit::RequestsPerSecond => format!("{} req/s", scaled(value, digits)),
        Unit::PerSecond => format!("{}/s", scaled(value, digits)),
        Unit::Bytes => binary(value, digits),
        Unit::BytesPerSecond => format!("{}/s", binary(value, digits)),
        Unit::Celsius => format!("{} °C", digits(value)),
        Unit::Hertz => format!("{} MHz", digits(value / 1e6)),
        Unit::Watts => format!("{} W", digits(value)),
    }
}

fn seconds(value: f64, digits: Digits) -> String {
    match value.abs() {
        v if v < 0.000_5 && digits(value) == "0" => "0 s".to_owned(),
        v if v < 1.0 => format!("{} ms", digits(value * 1e3)),
        v if v < 600.0 => format!("{} s", digits(value)),
        v if v < 36_000.0 => format!("{} min", digits(value / 60.0)),
        _ => format!("{} h", digits(value / 3_600.0)),
    }
}

fn scaled(value: f64, digits: Digits) -> String {
    match value.abs() {
        v if v >= 999_500.0 => format!("{}M", digits(value / 1e6)),
        v if v >= 999.5 => format!("{}k", digits(value / 1e3)),
        _ => digits(value),
    }
}

fn binary(value: f64, digits: Digits) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = value;
    let mut unit = 0;
    while value.abs() >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{} {}", digits(value), units[unit])
}

/// Formats two significant digits below ten, whole numbers above.
fn short(value: f64) -> String {
    let rounded = match value.abs() {
        v if v >= 9.95 => value.round(),
        v if v >= 0.095 => (value * 10.0).round() / 10.0,
        v if v >= 0.000_95 => (value * 1_000.0).round() / 1_000.0,
        _ => 0.0,
    };
    format!("{}", rounded + 0.0)
}

/// Formats four significant digits, without trailing zeros.
fn four_digits(value: f64) -> String {
    let rounded = format!("{value:.3e}").parse::<f64>().unwrap_or(value);
    format!("{}", rounded + 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_read_as_people_say_them() {
        let cases = [
            (0.972, Unit::Ratio, "97 %"),
            (0.004, Unit::Ratio, "0.4 %"),
            (8.24, Unit::Seconds, "8.2 s"),
            (0.1234, Unit::Seconds, "123 ms"),
            (3_912.0, Unit::Tokens, "3.9k tokens"),
            (45_180.0, Unit::TokensPerSecond, "45k tokens/s"),
            (41.0, Unit::Requests, "41"),
            (0.0, Unit::Requests, "0"),
            (1.98e9, Unit::Hertz, "1980 MHz"),
            (3.0 * 1024.0 * 1024.0, Unit::Bytes, "3 MiB"),
        ];
        for (value, unit, expected) in cases {
            assert_eq!(format_value(value, unit), expected);
        }
    }

    #[test]
    fn a_threshold_reads_as_the_number_that_is_compared() {
        let cases = [
            (0.25, Unit::Requests, "0.25"),
            (1.25, Unit::Factor, "1.25x"),
            (0.985, Unit::Ratio, "98.5 %"),
            (12.5, Unit::Seconds, "12.5 s"),
            (0.000_3, Unit::Seconds, "0.3 ms"),
            (0.0, Unit::Seconds, "0 s"),
            (0.1, Unit::Seconds, "100 ms"),
            (0.000_5, Unit::PerSecond, "0.0005/s"),
            (16_384.0, Unit::Tokens, "16.38k tokens"),
        ];
        for (value, unit, expected) in cases {
            assert_eq!(format_threshold(value, unit), expected);
        }
        assert_eq!(format_value(0.000_3, Unit::Seconds), "0 s");
    }
}
