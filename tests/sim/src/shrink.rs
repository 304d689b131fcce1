//! Makes a plan that fails as small as it can be and still fail, and tells how to play it again.

use std::{env, fs, io, path::PathBuf};

use crate::{bugs::Bug, case, faults::Plan, run::run};

/// How often a plan is run at most while it is made smaller: some seconds.
const RUNS_MAX: u32 = 1_500;

struct Shrinker {
    bug: Option<Bug>,
    runs: u32,
}

/// Leaves out faults and records, as long as the plan still fails.
#[must_use]
pub fn shrink(plan: &Plan, bug: Option<Bug>) -> Plan {
    let mut shrinker = Shrinker { bug, runs: 0 };
    let mut plan = plan.clone();
    loop {
        let before = (plan.faults.len(), plan.writings.len());
        shrinker.thin(&mut plan, |plan| &mut plan.faults);
        shrinker.thin(&mut plan, |plan| &mut plan.writings);
        let mut plain = plan.clone();
        plain.writings.retain(|writing| writing.is_committed());
        plain.writings.iter_mut().for_each(|writing| writing.transaction = None);
        if plain != plan && shrinker.fails(&plain) {
            plan = plain;
        }
        if (plan.faults.len(), plan.writings.len()) == before {
            return plan;
        }
    }
}

impl Shrinker {
    fn fails(&mut self, plan: &Plan) -> bool {
        if self.runs == RUNS_MAX {
            return false;
        }
        self.runs += 1;
        run(plan.clone(), self.bug, false).violation.is_some()
    }

    /// Leaves out halves, quarters and so on of a list, down to single items.
    fn thin<T: Clone>(&mut self, plan: &mut Plan, list: impl Fn(&mut Plan) -> &mut Vec<T>) {
        let mut step = list(plan).len();
        while step > 0 {
            let mut at = 0;
            while at < list(plan).len() {
                let mut fewer = plan.clone();
                let items = list(&mut fewer);
                items.drain(at..(at + step).min(items.len()));
                match self.fails(&fewer) {
                    true => *plan = fewer,
                    false => at += step,
                }
            }
            step /= 2;
        }
    }
}

/// Shrinks a plan that fails, keeps it as a case beside the build, and says how to play it again.
///
/// # Errors
///
/// When the case cannot be written.
pub fn report(plan: &Plan, bug: Option<Bug>) -> io::Result<String> {
    let small = shrink(plan, bug);
    let violation = run(small.clone(), bug, false).violation.unwrap_or_default();
    let case = case::write(&small, &violation);
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
    let folder = target.join("sim");
    fs::create_dir_all(&folder)?;
    let file = folder.join(format!("seed-{}.yaml", plan.seed));
    fs::write(&file, &case)?;
    let (of, path) = (plan.faults.len(), file.display());
    Ok(format!(
        "{} of {of} faults and {} of {} records are needed:\n\n{case}\nreplay it:       make sim \
         CASE={path} TRACE=1\nthe whole seed:  make sim SEED={} TRACE=1\nonce it is mended, keep it \
         in tests/sim/regressions",
        small.faults.len(),
        small.writings.len(),
        plan.writings.len(),
        plan.seed
    ))
}
