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

/// Returns rows as a table on a terminal, separated by tabs elsewhere.
#[must_use]
pub(crate) fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    if !io::stdout().is_terminal() {
        let mut lines = vec![header.join("\t")];
        lines.extend(rows.iter().map(|row| row.join("\t")));
        return lines.join("\n") + "\n";
    }
    boxed(header, rows)
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
    let lines: Vec<String> =
        table.to_string().lines().map(|line| line.trim_end().to_owned()).collect();
    lines.join("\n") + "\n"
}

/// Returns a value as indented JSON.
#[must_use]
pub(crate) fn json(value: &serde_json::Value) -> String {
    format!("{value:#}\n")
}
