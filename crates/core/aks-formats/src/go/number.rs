//! Numbers in Go's format.

/// Formats a floating-point number like `%v`: the shortest digits that parse to the same value, with an exponent below 1e-4 and from
/// 1e21.
pub fn float(value: f64) -> String {
    if value.is_nan() {
        return "NaN".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let magnitude = value.abs();
    if magnitude != 0.0 && !(1e-4..1e21).contains(&magnitude) {
        let scientific = format!("{value:e}");
        let (digits, exponent) = scientific.split_once('e').expect("`{:e}` prints an exponent");
        let (sign, size) = exponent.strip_prefix('-').map_or(('+', exponent), |size| ('-', size));
        return format!("{digits}e{sign}{size:0>2}");
    }
    format!("{value}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_print_like_go() {
        for (value, text) in [
            (10.0, "10"),
            (1.5, "1.5"),
            (0.0, "0"),
            (-0.25, "-0.25"),
            (100_000.0, "100000"),
            (1e20, "100000000000000000000"),
            (1e21, "1e+21"),
            (1.5e-7, "1.5e-07"),
            (0.0001, "0.0001"),
            (1e100, "1e+100"),
        ] {
            assert_eq!(float(value), text);
        }
    }
}
