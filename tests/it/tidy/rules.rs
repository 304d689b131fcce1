//! Rules about single files, by their text or their place.

use super::SourceFile;
use super::lines::split;

/// From files to complaints: where, what, and what to do.
pub(super) type Rule = fn(&[SourceFile]) -> Vec<String>;

/// Production lines, that is without the test module at the end.
const LINES_MAX: usize = 800;

/// Marks in comments; what is in a text is data.
const UNFINISHED: [&str; 3] = ["TODO", "FIXME", "XXX"];
const LEFTOVER: &str = "dbg!(";
// In two parts, so that this file does not break its own rules.
const MACHINE_FOLDERS: [&str; 2] = [concat!("/wo", "rk/"), concat!("/ro", "ot/")];
const REGISTRY_HOSTS: [&str; 8] =
    ["index", "repo", "repo1", "registry", "files", "proxy", "deb", "static"];
const GRAB_BAGS: [&str; 8] =
    ["util", "utils", "common", "helper", "helpers", "misc", "shared", "tools"];

fn rust(files: &[SourceFile]) -> impl Iterator<Item = &SourceFile> {
    files.iter().filter(|file| file.has_extension(".rs"))
}

/// `path:line: text` for every line that `find` has something to say about.
fn by_line(file: &SourceFile, find: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let complaints = file.text.lines().enumerate().filter_map(|(index, line)| {
        let complaint = find(line)?;
        Some(format!("{}:{}: {complaint}", file.path, index + 1))
    });
    complaints.collect()
}

fn production_lines(text: &str) -> usize {
    let lines: Vec<&str> = text.lines().collect();
    let tests = lines.windows(2).position(|pair| {
        pair[0] == "#[cfg(test)]" && pair[1].starts_with("mod ") && pair[1].ends_with('{')
    });
    tests.unwrap_or(lines.len())
}

pub(super) fn short_files(files: &[SourceFile]) -> Vec<String> {
    let long = rust(files).filter_map(|file| {
        let lines = production_lines(&file.text);
        (lines > LINES_MAX).then(|| {
            format!(
                "{}: {lines} lines without its tests, at most {LINES_MAX}: split it by what changes \
                 together",
                file.path
            )
        })
    });
    long.collect()
}

pub(super) fn module_docs(files: &[SourceFile]) -> Vec<String> {
    let silent = rust(files).filter(|file| !file.text.starts_with("//!"));
    let complaint = |file: &SourceFile| {
        format!(
            "{}: begin with `//!`: the module's purpose in one sentence, then what it must not know \
             and what it keeps true",
            file.path
        )
    };
    silent.map(complaint).collect()
}

pub(super) fn no_unfinished_marks(files: &[SourceFile]) -> Vec<String> {
    let find = |line: &str| {
        let (code, comment) = split(line);
        if code.contains(LEFTOVER) {
            return Some(format!("{LEFTOVER}…): take it out"));
        }
        let mark = UNFINISHED.iter().find(|mark| comment.contains(**mark))?;
        Some(format!("{mark}: finish it, or describe it in an issue"))
    };
    rust(files).flat_map(|file| by_line(file, find)).collect()
}

pub(super) fn no_stray_white_space(files: &[SourceFile]) -> Vec<String> {
    let find = |line: &str| {
        if line.contains('\t') {
            Some("a tab: indent with blanks, write \\t in a literal".to_owned())
        } else if line.ends_with(' ') {
            Some("blanks at the end of the line: remove them".to_owned())
        } else {
            None
        }
    };
    rust(files).flat_map(|file| by_line(file, find)).collect()
}

pub(super) fn no_grab_bag_modules(files: &[SourceFile]) -> Vec<String> {
    let bags = rust(files).filter_map(|file| {
        let names = file.path.trim_end_matches(".rs").split('/');
        let name = names.clone().find(|name| GRAB_BAGS.contains(name))?;
        Some(format!(
            "{}: `{name}` says nothing about what is inside: name the module after the thing it is \
             about, or move each piece to its user",
            file.path
        ))
    });
    bags.collect()
}

pub(super) fn no_paths_of_a_machine(files: &[SourceFile]) -> Vec<String> {
    let find = |line: &str| {
        let folder = MACHINE_FOLDERS.iter().find(|folder| {
            let mut places = line.match_indices(*folder);
            places.any(|(at, _)| !line[..at].ends_with(|c: char| c.is_ascii_alphanumeric()))
        })?;
        Some(format!(
            "{folder}: a path of one machine: make it relative, or take it from the environment"
        ))
    };
    files.iter().flat_map(|file| by_line(file, find)).collect()
}

pub(super) fn no_registry_hosts(files: &[SourceFile]) -> Vec<String> {
    let find = |line: &str| {
        let hosts = line.split("://").skip(1);
        let mut labels = hosts.filter_map(|rest| rest.split('.').next());
        let label = labels.find(|label| REGISTRY_HOSTS.contains(label))?;
        Some(format!("a registry's host ({label}…): name the package, its client knows the host"))
    };
    let written = files.iter().filter(|file| !file.path.ends_with("Cargo.lock"));
    written.flat_map(|file| by_line(file, find)).collect()
}

pub(super) fn examples_have_readmes(examples: &[String], files: &[SourceFile]) -> Vec<String> {
    let silent = examples.iter().filter(|example| {
        let readme = format!("examples/{example}/README.md");
        !files.iter().any(|file| file.path == readme)
    });
    let complaint = |example: &String| {
        format!("examples/{example}: write a README.md: what it shows and how to run it")
    };
    silent.map(complaint).collect()
}

pub(super) fn guests_are_tested(guests: &[String], files: &[SourceFile]) -> Vec<String> {
    let is_named = |guest: &String| {
        let (name, path) = (format!("\"{guest}\""), format!("guests/{guest}\""));
        rust(files).any(|file| file.text.contains(&name) || file.text.contains(&path))
    };
    let unused = guests.iter().filter(|guest| !is_named(guest));
    let complaint = |guest: &String| {
        format!("tests/guests/{guest}: no test names \"{guest}\": test it, or remove it")
    };
    unused.map(complaint).collect()
}

mod tests {
    use super::super::{assert_advice, assert_no_complaint, assert_one_complaint};
    use super::*;

    #[test]
    fn long_file_is_to_be_split_and_its_tests_do_not_count() {
        let production = "let a = 1;\n".repeat(LINES_MAX);
        let tests = format!("{production}#[cfg(test)]\nmod tests {{\n}}\n");
        assert_no_complaint(short_files, "a.rs", &tests);
        let long = format!("{production}\n{tests}");
        assert_one_complaint(short_files, "a.rs", &long, "split it");
    }

    #[test]
    fn file_without_module_docs_needs_them() {
        assert_one_complaint(module_docs, "a.rs", "fn a() {}\n", "begin with `//!`");
        assert_no_complaint(module_docs, "a.rs", "//! Does a.\n");
    }

    #[test]
    fn unfinished_mark_is_to_be_finished() {
        for mark in UNFINISHED {
            let comment = format!("let a = 1; // {mark}");
            assert_one_complaint(no_unfinished_marks, "a.rs", &comment, "finish it");
            let text = format!("let currency = \"{mark}\";");
            assert_no_complaint(no_unfinished_marks, "a.rs", &text);
        }
        assert_one_complaint(no_unfinished_marks, "a.rs", "dbg!(a)", "take it out");
    }

    #[test]
    fn stray_white_space_is_to_be_removed() {
        assert_one_complaint(no_stray_white_space, "a.rs", "\tlet a;", "indent");
        assert_one_complaint(no_stray_white_space, "a.rs", "let a; ", "remove");
    }

    #[test]
    fn grab_bag_module_needs_a_name_that_says_something() {
        for path in ["src/utils.rs", "src/common/time.rs"] {
            assert_one_complaint(no_grab_bag_modules, path, "", "name the module after");
        }
    }

    #[test]
    fn path_of_a_machine_is_found_in_any_file() {
        let bad = format!("cd {}main", MACHINE_FOLDERS[0]);
        assert_one_complaint(no_paths_of_a_machine, "a.md", &bad, "relative");
        let good = format!("net{}x", MACHINE_FOLDERS[0]);
        assert_no_complaint(no_paths_of_a_machine, "a.md", &good);
    }

    #[test]
    fn registry_host_is_found_in_any_file() {
        let bad = format!("curl https:{}index.example.org/x", "//");
        assert_one_complaint(no_registry_hosts, "a.md", &bad, "name the package");
        assert_no_complaint(no_registry_hosts, "a.md", "https://kafka.apache.org/");
    }

    #[test]
    fn example_without_a_readme_needs_one() {
        let files = [SourceFile::sample("examples/a/README.md", "")];
        let examples = ["a".to_owned(), "b".to_owned()];
        let complaints = examples_have_readmes(&examples, &files);
        assert_advice(&complaints, "examples/b: write a README.md");
    }

    #[test]
    fn guest_that_no_test_names_is_to_be_tested_or_removed() {
        let code = "load(\"loops\"); load(\"../guests/traps\")";
        let files = [SourceFile::sample("tests/it/sandbox.rs", code)];
        let guests = ["loops", "traps", "leaks"].map(str::to_owned);
        assert_advice(&guests_are_tested(&guests, &files), "no test names \"leaks\"");
    }
}
