//! One line of Rust or WIT, taken apart as far as the rules need it.

/// The code of a line without the insides of its texts, and its comment.
///
/// A text over several lines is not seen through.
pub(super) fn split(line: &str) -> (String, &str) {
    let mut code = String::new();
    let mut in_text = false;
    let mut characters = line.char_indices().peekable();
    while let Some((at, c)) = characters.next() {
        match c {
            '\\' if in_text => {
                characters.next();
            }
            '"' => in_text = !in_text,
            '/' if !in_text && characters.peek().is_some_and(|(_, next)| *next == '/') => {
                return (code, &line[at..]);
            }
            _ if in_text => {}
            _ => code.push(c),
        }
    }
    (code, "")
}

mod tests {
    use super::split;

    #[test]
    fn texts_and_comments_are_told_from_code() {
        let line = r#"let a = "x // \"y"; // why"#;
        assert_eq!(split(line), ("let a = ; ".to_owned(), "// why"));
        assert_eq!(split("fn a() {}"), ("fn a() {}".to_owned(), ""));
    }
}
