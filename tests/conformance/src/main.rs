//! Runs conformance cases and says which fail, at which step, with what.
//!
//! `conformance [--ops OP,…] [--components FOLDER] [FILE…]`; without files, every one beside this
//! crate. With `--components plugins` the reference plugins run as the components that
//! `dovetail build` has made of them, without it their code runs natively. An operation that is not
//! known counts as failed, and so does a line that is no case. Ends with the line
//! `N passed, M failed`; exit code 1 if any failed.
#![expect(clippy::print_stdout, reason = "the result is what this program is for")]

mod case;
mod joined;
mod keyed;
mod op;
mod plugins;

use std::{path::PathBuf, process::ExitCode};

use anyhow::{Context, Result};

use crate::{
    case::Case,
    plugins::{Components, Plugins},
};

fn main() -> Result<ExitCode> {
    let mut ops: Option<Vec<String>> = None;
    let mut files = Vec::new();
    let mut plugins = Plugins::Native;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        if argument == "--ops" {
            let list = arguments.next().context("--ops needs a list of operations")?;
            ops = Some(list.split(',').map(str::to_owned).collect());
        } else if argument == "--components" {
            let folder =
                arguments.next().context("--components needs the folder of the plugins")?;
            plugins = Plugins::Components(Box::new(Components::new(PathBuf::from(folder))?));
        } else {
            files.push(PathBuf::from(argument));
        }
    }
    if files.is_empty() {
        files = all_files()?;
    }
    let (mut passed, mut failed) = (0, 0);
    for file in &files {
        let text = std::fs::read_to_string(file)
            .with_context(|| format!("read the cases of {}", file.display()))?;
        for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let at = format!("{}:{}", file.display(), number + 1);
            let case = match Case::parse(line) {
                Ok(case) => case,
                Err(error) => {
                    failed += 1;
                    println!("{at}: this line is not a case: {error:#}");
                    continue;
                }
            };
            if ops.as_ref().is_some_and(|ops| !ops.contains(&case.op)) {
                continue;
            }
            match op::run(&case, &plugins) {
                Ok(()) => passed += 1,
                Err(failure) => {
                    failed += 1;
                    println!("{at}: {} ({}): {}\n{failure}", case.id, case.op, case.pins);
                }
            }
        }
    }
    anyhow::ensure!(passed + failed > 0, "no case was selected: see --ops and the files");
    println!("{passed} passed, {failed} failed");
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn all_files() -> Result<Vec<PathBuf>> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    for entry in folder.read_dir().context("list the conformance cases")? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "jsonl") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}
