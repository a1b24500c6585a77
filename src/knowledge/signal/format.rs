//! Numbers formatted for people.

use super::Unit;

/// Formats a value in its unit: `97 %`, `8.2 s`, `120 ms`, `3.9k tokens`, `41`.
pub fn format_value(value: f64, unit: Unit) -> String {
    match unit {
        Unit::Ratio => format!("{} %", short(value * 100.0)),
        Unit::Seconds => seconds(value),
        Unit::Tokens => format!("{} tokens", scaled(value)),
        Unit::Factor => format!("{}x", short(value)),
        Unit::TokensPerSecond => format!("{} tokens/s", scaled(value)),
        Unit::Requests | Unit::Count => scaled(value),
        Unit::RequestsPerSecond => format!("{} req/s", scaled(value)),
        Unit::PerSecond => format!("{}/s", scaled(value)),
        Unit::Bytes => binary(value),
        Unit::BytesPerSecond => format!("{}/s", binary(value)),
        Unit::Celsius => format!("{} °C", short(value)),
        Unit::Hertz => format!("{} MHz", short(value / 1e6)),
        Unit::Watts => format!("{} W", short(value)),
    }
}

/// Formats a part of some seconds in the unit of the whole: `0.2 s` of 6.9 s.
pub fn format_part(seconds_of: f64, total: f64) -> String {
    if total >= 1.0 { format!("{seconds_of:.1} s") } else { seconds(seconds_of) }
}

fn seconds(value: f64) -> String {
    match value.abs() {
        v if v < 0.000_5 => "0 s".to_owned(),
        v if v < 1.0 => format!("{} ms", short(value * 1e3)),
        v if v < 600.0 => format!("{} s", short(value)),
        v if v < 36_000.0 => format!("{} min", short(value / 60.0)),
        _ => format!("{} h", short(value / 3_600.0)),
    }
}

fn scaled(value: f64) -> String {
    match value.abs() {
        v if v >= 999_500.0 => format!("{}M", short(value / 1e6)),
        v if v >= 9_995.0 => format!("{}k", short(value / 1e3)),
        v if v >= 999.5 => format!("{}k", (value / 100.0).round() / 10.0),
        _ => short(value),
    }
}

fn binary(value: f64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = value;
    let mut unit = 0;
    while value.abs() >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{} {}", short(value), units[unit])
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
}
