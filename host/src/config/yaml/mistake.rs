//! What is likely wrong where text is no YAML, in words about what people write.
//!
//! Knows lines, indentation and the parser's message; no keys. Keeps: it only adds to what the
//! parser says, since it may be mistaken.

/// Returns what is likely wrong in a line (from 1) that the parser cannot go on at.
pub(super) fn likely(text: &str, line: usize, info: &str) -> Option<String> {
    let lines: Vec<&str> = text.lines().collect();
    let at = line.checked_sub(1)?;
    let written = lines.get(at).copied().unwrap_or_default();
    let blank = &written[..written.len() - written.trim_start().len()];
    if info.contains("tab") || blank.contains('\t') {
        return Some("a tab stands here: indent with spaces".to_owned());
    }
    if info.contains("quote") {
        return Some("a quote is opened and never closed, or closed too early".to_owned());
    }
    if info.contains("flow") || info.contains("bracket") {
        return Some("a `{` or `[` in this line or above is not closed".to_owned());
    }
    if info.contains("unexpected character") {
        return Some("put the value in quotes".to_owned());
    }
    let (before, levels) = above(&lines[..at.min(lines.len())]);
    indentation(written, before, &levels).or_else(|| colon(written, before, info))
}

/// A line that is neither empty nor a comment: its number, from 1, and its text.
type Line<'t> = (usize, &'t str);

/// Returns the last line that says something, and how far it and what encloses it are indented.
fn above<'t>(lines: &[&'t str]) -> (Option<Line<'t>>, Vec<usize>) {
    let mut last = None;
    let mut levels: Vec<usize> = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        if line.trim().is_empty() || line.trim_start().starts_with('#') {
            continue;
        }
        last = Some((at + 1, *line));
        let indent = indent_of(line);
        while levels.last().is_some_and(|level| *level > indent) {
            levels.pop();
        }
        if levels.last() != Some(&indent) {
            levels.push(indent);
        }
    }
    (last, levels)
}

fn indent_of(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

fn indentation(line: &str, before: Option<Line<'_>>, levels: &[usize]) -> Option<String> {
    let indent = indent_of(line);
    let deepest = *levels.last()?;
    if indent < deepest && !levels.contains(&indent) {
        let levels: Vec<String> = levels.iter().map(usize::to_string).collect();
        return Some(format!(
            "this line is indented by {indent} spaces, the keys above it by {}: line it up with \
             those that it belongs to",
            levels.join(", ")
        ));
    }
    let (number, before) = before?;
    let has_value = !before.trim_end().ends_with(':');
    (indent > deepest && has_value && before.contains(": ")).then(|| {
        format!(
            "this line is indented further than line {number}, whose key has its value already: \
             line both up, or remove that value"
        )
    })
}

fn colon(line: &str, before: Option<Line<'_>>, info: &str) -> Option<String> {
    let lacks_colon = |text: &str| !text.contains(": ") && !text.trim_end().ends_with(':');
    if info.contains("expected ':'") {
        return Some("a key is followed by `:` and a space".to_owned());
    }
    if !info.contains("mapping values") {
        return None;
    }
    match before {
        Some((number, before)) if lacks_colon(before) && !before.trim().starts_with("- ") => {
            Some(format!("line {number} has no `:` with a space behind its key"))
        }
        _ if line.matches(": ").count() > 1 => {
            Some("a value that has `: ` in it needs quotes".to_owned())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse;

    fn help(text: &str) -> String {
        let problem = parse(text).unwrap_err();
        format!("{}:{} {}", problem.place.line, problem.place.column, problem.help.unwrap())
    }

    #[test]
    fn a_key_between_two_levels_is_told_with_the_levels() {
        let said = help("a:\n  b:\n    c: 1\n   d: 2\n");
        assert!(said.starts_with("4:4 ") && said.contains("by 3 spaces"), "{said}");
        assert!(said.contains("by 0, 2, 4"), "{said}");
        let said = help(" a: 1\nb: 2\n");
        assert!(said.contains("by 0 spaces, the keys above it by 1"), "{said}");
    }

    #[test]
    fn a_key_below_one_that_has_a_value_is_told_with_its_line() {
        let said = help("a:\n  topic: x\n    start: earliest\n");
        assert!(said.contains("further than line 2"), "{said}");
    }

    #[test]
    fn tabs_colons_quotes_and_brackets_are_told() {
        for (text, part) in [
            ("a:\n\tb: 1\n", "a tab stands here"),
            ("a:\n  topic:x\n  start: now\n", "line 2 has no `:` with a space"),
            ("a: b: c\n", "needs quotes"),
            ("a\n  b: 1\n", "line 1 has no `:` with a space"),
            ("a: 1\nb\n", "`:` and a space"),
            ("a: \"b\nc: 1\n", "a quote is opened"),
            ("a: { b: 1\nc: 2\n", "is not closed"),
            ("a: { b: @x }\n", "in quotes"),
        ] {
            let said = help(text);
            assert!(said.contains(part), "{text:?}: {said}");
        }
    }
}
