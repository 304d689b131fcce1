//! Cutting texts that are kept or sent: what a guest or a broker says may be of any length.

/// Returns as much of a text as fits into that many bytes, cut between two characters.
#[must_use]
pub fn cut(text: &str, bytes_max: usize) -> &str {
    &text[..text.floor_char_boundary(bytes_max)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_two_characters() {
        assert_eq!(cut("größe", 4), "grö");
        assert_eq!(cut("größe", 3), "gr");
        assert_eq!(cut("größe", 99), "größe");
    }
}
