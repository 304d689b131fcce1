//! Every package follows the workspace, and says what it is.

use super::SourceFile;

/// The packages of the repository; the top manifest is only a list of them.
fn packages(files: &[SourceFile]) -> impl Iterator<Item = (&SourceFile, toml::Table)> {
    let manifests = files.iter().filter(|file| file.path.ends_with("Cargo.toml"));
    manifests.filter_map(|file| {
        let table: toml::Table = file.text.parse().ok()?;
        table.contains_key("package").then_some((file, table))
    })
}

/// A guest that is built by itself has no workspace to inherit from.
fn stands_alone(table: &toml::Table) -> bool {
    table.contains_key("workspace")
}

pub(super) fn workspace_lints(files: &[SourceFile]) -> Vec<String> {
    let without = packages(files).filter(|(_, table)| {
        let lints = table
            .get("lints")
            .and_then(|lints| lints.get("workspace"))
            .and_then(toml::Value::as_bool);
        lints != Some(true) && !stands_alone(table)
    });
    let complaint = |(file, _): (&SourceFile, toml::Table)| {
        format!("{}: add `[lints]` with `workspace = true`", file.path)
    };
    without.map(complaint).collect()
}

pub(super) fn descriptions(files: &[SourceFile]) -> Vec<String> {
    let without = packages(files).filter(|(_, table)| {
        let description = table
            .get("package")
            .and_then(|package| package.get("description"))
            .and_then(toml::Value::as_str);
        description.is_none_or(str::is_empty)
    });
    let complaint = |(file, _): (&SourceFile, toml::Table)| {
        format!("{}: add a `description`: what it does, in one sentence", file.path)
    };
    without.map(complaint).collect()
}

mod tests {
    use super::super::{assert_no_complaint, assert_one_complaint};
    use super::{descriptions, workspace_lints};

    const GOOD: &str = "[package]\ndescription = \"Does a.\"\n[lints]\nworkspace = true\n";
    const BAD: &str = "[package]\nname = \"a\"\n";

    #[test]
    fn package_without_the_workspace_lints_needs_them() {
        assert_no_complaint(workspace_lints, "a/Cargo.toml", GOOD);
        assert_one_complaint(workspace_lints, "a/Cargo.toml", BAD, "workspace = true");
        let alone = format!("{BAD}[workspace]\n");
        assert_no_complaint(workspace_lints, "a/Cargo.toml", &alone);
    }

    #[test]
    fn package_without_a_description_needs_one() {
        assert_no_complaint(descriptions, "a/Cargo.toml", GOOD);
        assert_one_complaint(descriptions, "a/Cargo.toml", BAD, "add a `description`");
    }
}
