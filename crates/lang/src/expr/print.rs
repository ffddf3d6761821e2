//! Text forms of numbers, as MongoDB prints them into strings.

/// The text form of a double in `$toString`: `2.5`, `1e+308`, `NaN`, `Infinity`; a whole number has no decimal point.
pub(crate) fn double(n: f64) -> String {
    if n.is_nan() {
        return "NaN".into();
    }
    if n.is_infinite() {
        return if n > 0.0 { "Infinity".into() } else { "-Infinity".into() };
    }
    general(n, 16)
}

/// The output of C's `%.<digits>g`, including `nan` and `inf`.
pub(crate) fn general(n: f64, digits: usize) -> String {
    if !n.is_finite() {
        let text = if n.is_nan() { "nan" } else { "inf" };
        return if n < 0.0 { format!("-{text}") } else { text.into() };
    }
    if n == 0.0 {
        return if n.is_sign_negative() { "-0".into() } else { "0".into() };
    }
    let text = format!("{n:.*e}", digits - 1);
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if exponent < -4 || exponent >= digits as i32 {
        let mantissa = trim_zeros(mantissa);
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{mantissa}e{sign}{:02}", exponent.abs());
    }
    let places = (digits as i32 - 1 - exponent).max(0) as usize;
    trim_zeros(&format!("{n:.places$}")).to_owned()
}

fn trim_zeros(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}
