//! What is printed and how: colour and tables on a terminal only.

use std::io::{self, IsTerminal as _, Write as _};

use comfy_table::{ContentArrangement, Table, presets};

use crate::failure::Failure;

/// Writes a text to standard output.
///
/// # Errors
///
/// When standard output is closed; a reader that has enough (`| head`) is no error.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

/// Writes a line to standard error: progress, warnings.
pub(crate) fn note(text: &str) {
    let mut err = io::stderr().lock();
    let _closed = writeln!(err, "{}", text.trim_end());
}

/// Writes an error to standard error.
pub(crate) fn complain(text: &str) {
    let label =
        if text.starts_with("error") || text.starts_with("warning") { "" } else { "error: " };
    let text = format!("{label}{text}");
    if !use_color(io::stderr().is_terminal()) {
        note(&text);
        return;
    }
    let colored: Vec<String> = text
        .lines()
        .map(|line| match line.split_once(':') {
            Some(("error", rest)) => format!("\u{1b}[1;31merror\u{1b}[0m:{rest}"),
            Some(("warning", rest)) => format!("\u{1b}[1;33mwarning\u{1b}[0m:{rest}"),
            _ => line.to_owned(),
        })
        .collect();
    note(&colored.join("\n"));
}

/// Returns whether colours are wanted where this kind of output goes.
#[must_use]
pub(crate) fn use_color(is_terminal: bool) -> bool {
    is_terminal && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// Returns rows as a table on a terminal, separated by tabs elsewhere; of a text of several lines
/// the first.
#[must_use]
pub(crate) fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let first_line = |cell: &String| cell.lines().next().unwrap_or_default().to_owned();
    let rows: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(first_line).collect()).collect();
    if !io::stdout().is_terminal() {
        let mut lines = vec![header.join("\t")];
        lines.extend(rows.iter().map(|row| row.join("\t")));
        return lines.join("\n") + "\n";
    }
    boxed(header, &rows)
}

/// Returns rows as a table, wherever they go (refusals that people read).
#[must_use]
pub(crate) fn boxed(header: &[&str], rows: &[Vec<String>]) -> String {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_header(header.to_vec());
    for row in rows {
        table.add_row(row.clone());
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 1));
    }
    let lines: Vec<String> =
        table.to_string().lines().map(|line| line.trim_end().to_owned()).collect();
    lines.join("\n") + "\n"
}

/// Returns a time in few columns: the time of day today, the day and minute this year, else the day.
/// A dash where there is none. UTC, as everywhere.
#[must_use]
pub(crate) fn brief_time(ms: Option<i64>, now: i64) -> String {
    let Some(ms) = ms else { return "-".to_owned() };
    if ms == i64::MAX {
        return "end of time".to_owned();
    }
    let at = |ms| jiff::Timestamp::from_millisecond(ms).ok();
    let (Some(time), Some(now)) = (at(ms), at(now)) else { return ms.to_string() };
    let part = |format: &str, time: jiff::Timestamp| time.strftime(format).to_string();
    let is_same = |format: &str| part(format, time) == part(format, now);
    if is_same("%F") {
        part("%T", time)
    } else if is_same("%Y") {
        part("%m-%d %H:%M", time)
    } else {
        part("%F", time)
    }
}

/// Returns a size in few columns.
#[must_use]
pub(crate) fn brief_bytes(bytes: u64) -> String {
    let units = [("GiB", 1_u64 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)];
    match units.into_iter().find(|(_, unit)| bytes >= *unit) {
        Some((name, unit)) => format!("{}{name}", (bytes + unit / 2) / unit),
        None => format!("{bytes}B"),
    }
}

/// Returns a value as indented JSON.
#[must_use]
pub(crate) fn json(value: &serde_json::Value) -> String {
    format!("{value:#}\n")
}

/// Returns a number of things: `1 lane`, `2 lanes`.
#[must_use]
pub(crate) fn count(number: u64, noun: &str) -> String {
    if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_as_long_as_they_must_be() {
        let noon = 1_767_268_800_000; // 2026-01-01T12:00:00Z
        assert_eq!(brief_time(Some(noon - 1_000), noon), "11:59:59");
        assert_eq!(brief_time(Some(noon), noon + 86_400_000), "01-01 12:00");
        assert_eq!(brief_time(Some(noon - 86_400_000), noon), "2025-12-31");
        assert_eq!(brief_time(None, noon), "-");
    }

    #[test]
    fn a_row_is_one_line() {
        let rows = [vec!["abc".to_owned(), "it traps\nwasm backtrace\n  0: f".to_owned()]];
        let shown = table(&["REVISION", "WHY"], &rows);
        assert_eq!(shown.lines().count(), 2, "{shown}");
        assert!(shown.contains("it traps") && !shown.contains("backtrace"), "{shown}");
    }

    #[test]
    fn sizes_have_one_unit() {
        assert_eq!(brief_bytes(512), "512B");
        assert_eq!(brief_bytes(31_752), "31KiB");
        assert_eq!(brief_bytes(3 << 30), "3GiB");
    }
}
