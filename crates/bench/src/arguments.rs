//! Kinds of arguments that several commands read.

/// Reads a share of the whole, above 0 and at most 1.
pub fn share(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share) if share > 0.0 && share <= 1.0 => Ok(share),
        _ => Err(format!("`{text}` is no share above 0 and at most 1")),
    }
}

#[cfg(test)]
mod tests {
    use super::share;

    #[test]
    fn shares_end_where_they_should() {
        assert_eq!((share("1"), share("0.5")), (Ok(1.0), Ok(0.5)));
        for text in ["0", "1.1", "-0.1", "NaN", "", "half"] {
            assert!(share(text).is_err(), "{text}");
        }
    }
}
