//! Numbers formatted for people: three significant digits, and a unit.

/// 1234567 as 1.23 M.
pub fn count(value: f64) -> String {
    for (unit, size) in [("G", 1e9), ("M", 1e6), ("k", 1e3)] {
        if value >= size * 0.9995 {
            return format!("{} {unit}", digits(value / size));
        }
    }
    if value.fract() == 0.0 { format!("{value:.0}") } else { digits(value) }
}

/// Bytes in binary units.
pub fn bytes(value: f64) -> String {
    for (unit, power) in [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)] {
        let size = f64::from(power).exp2();
        if value >= size * 0.9995 {
            return format!("{} {unit}", digits(value / size));
        }
    }
    format!("{value:.0} B")
}

/// Microseconds in a suitable unit.
pub fn micros(us: f64) -> String {
    match us {
        _ if us >= 999_500.0 => format!("{} s", digits(us / 1e6)),
        _ if us >= 999.5 => format!("{} ms", digits(us / 1e3)),
        _ => format!("{} µs", digits(us)),
    }
}

/// A share as per cent.
pub fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// Seconds in a suitable unit.
pub fn duration(seconds: f64) -> String {
    for (unit, size) in [("d", 86_400.0), ("h", 3600.0), ("min", 60.0)] {
        if seconds >= 2.0 * size {
            return format!("{:.0} {unit}", (seconds / size).floor());
        }
    }
    format!("{seconds:.0} s")
}

/// Three significant digits.
fn digits(value: f64) -> String {
    match value {
        _ if value >= 99.95 => format!("{value:.0}"),
        _ if value >= 9.995 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_three_digits() {
        for (value, text) in [
            (0.0, "0"),
            (7.0, "7"),
            (0.256, "0.26"),
            (999.0, "999"),
            (999.6, "1.00 k"),
            (12_345.0, "12.3 k"),
            (1.5e9, "1.50 G"),
        ] {
            assert_eq!(count(value), text, "{value}");
        }
        assert_eq!((bytes(1023.0), bytes(1_048_575.0)), ("1023 B".into(), "1.00 MiB".into()));
        assert_eq!((micros(0.25), micros(1500.0)), ("0.25 µs".into(), "1.50 ms".into()));
        assert_eq!((micros(2e6), percent(0.5)), ("2.00 s".into(), "50.0 %".into()));
        assert_eq!((duration(119.0), duration(7200.0)), ("119 s".into(), "2 h".into()));
    }
}
