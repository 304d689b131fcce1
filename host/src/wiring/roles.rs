//! Matches what a plugin says of itself with what the configuration names.
//!
//! Keeps: every role has an input and every input a role; every output of the plugin has a
//! destination and every destination something that writes to it.

use dovetail_core::{
    options::{LatePolicy, OutputOptions},
    plugin::PluginDescriptor,
};

use crate::config::{
    Loaded,
    report::{Problem, nearest, one_of},
};

/// How a revision fits the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fit {
    /// `roles[input]` is the plugin's number for that input.
    pub roles: Vec<u32>,
    /// For each place in the lane's outputs, the place in the configuration.
    pub outputs: Vec<usize>,
    /// Which of `outputs` is named `late`.
    pub late_output: Option<u16>,
}

/// Matches a plugin's description with the configuration.
///
/// # Errors
///
/// Everything that is missing or left over.
pub fn fit(loaded: &Loaded, descriptor: &PluginDescriptor) -> Result<Fit, Vec<Problem>> {
    let mut problems = Vec::new();
    let roles = fit_roles(loaded, descriptor, &mut problems);
    let outputs = fit_outputs(loaded, descriptor, &mut problems);
    if !problems.is_empty() {
        return Err(problems);
    }
    let late_output = outputs
        .iter()
        .position(|at| loaded.config.outputs[*at].name == "late")
        .map(|at| u16::try_from(at).expect("a plugin has fewer than 2^16 outputs"));
    Ok(Fit { roles, outputs, late_output })
}

impl Fit {
    /// Returns the number that the `first` revision gave to each of the outputs of `describe`;
    /// `None` where the numbers are the same. Both fit one configuration, so both have all of it.
    #[must_use]
    pub fn renumbered(&self, first: &Self, declared: usize) -> Option<Vec<u32>> {
        if self.outputs == first.outputs {
            return None;
        }
        let place = |at: &usize| first.outputs.iter().position(|known| known == at);
        let number = |at| u32::try_from(place(at).unwrap_or(usize::MAX)).unwrap_or(u32::MAX);
        Some(self.outputs.iter().take(declared).map(number).collect())
    }

    /// Returns the lane's outputs, given what each configured one accepts.
    #[must_use]
    pub fn lane_outputs(&self, accepted: &[OutputOptions]) -> Vec<OutputOptions> {
        self.outputs.iter().map(|at| accepted[*at].clone()).collect()
    }
}

fn fit_roles(
    loaded: &Loaded,
    descriptor: &PluginDescriptor,
    problems: &mut Vec<Problem>,
) -> Vec<u32> {
    let inputs: Vec<&str> = loaded.config.inputs.iter().map(|input| input.name.as_str()).collect();
    let known: Vec<&str> = descriptor.inputs.iter().map(String::as_str).collect();
    let pairs: Vec<(&str, &str)> = match &loaded.config.plugin.roles {
        Some(roles) => roles.iter().map(|(role, input)| (role.as_str(), input.as_str())).collect(),
        None => inputs.iter().map(|name| (*name, *name)).collect(),
    };
    let is_mapped = loaded.config.plugin.roles.is_some();
    for (role, _) in pairs.iter().filter(|(role, _)| !known.contains(role)) {
        let (path, message) = if is_mapped {
            (format!("plugin.inputs.{role}"), format!("the plugin has no role `{role}`"))
        } else {
            (
                format!("inputs.{role}"),
                format!("the plugin has no role `{role}` and `plugin.inputs` gives it no other"),
            )
        };
        let near = nearest(role, known.iter().copied())
            .map_or_else(String::new, |word| format!("; did you mean `{word}`?"));
        let help = format!("its roles are {}", one_of(&known));
        problems.push(loaded.problem(&path, message + &near, help));
    }
    for role in known.iter().filter(|role| !pairs.iter().any(|(named, _)| named == *role)) {
        problems.push(loaded.problem(
            "plugin.inputs",
            format!("the plugin's role `{role}` has no input"),
            format!("name one: plugin: {{ inputs: {{ {role}: INPUT, … }} }}"),
        ));
    }
    problems.extend(broadcast_problems(loaded, descriptor, &pairs));
    inputs
        .iter()
        .filter_map(|input| pairs.iter().find(|(_, named)| named == input))
        .filter_map(|(role, _)| known.iter().position(|known| known == role))
        .map(|at| u32::try_from(at).expect("a plugin has fewer than 2^32 inputs"))
        .collect()
}

/// Both must say alike whether every lane reads all of an input.
fn broadcast_problems(
    loaded: &Loaded,
    descriptor: &PluginDescriptor,
    pairs: &[(&str, &str)],
) -> Vec<Problem> {
    let known = pairs.iter().filter(|(role, _)| descriptor.inputs.iter().any(|it| it == role));
    let inputs = known.filter_map(|(role, named)| {
        let input = loaded.config.inputs.iter().find(|input| input.name == *named)?;
        let (said, wanted) = (input.is_broadcast, descriptor.is_broadcast(role));
        (said != wanted).then_some((role, input.name.as_str(), wanted))
    });
    let problem = |(role, input, wanted): (&&str, &str, bool)| {
        let (message, help) = if wanted {
            (
                format!("the plugin wants every lane to read all of its role `{role}`"),
                format!("say `broadcast: true` in `inputs.{input}`"),
            )
        } else {
            (
                format!("the plugin's role `{role}` is keyed, and `{input}` is `broadcast: true`"),
                "leave `broadcast` out, or take a plugin that handles broadcast records".to_owned(),
            )
        };
        loaded.problem(&format!("inputs.{input}.broadcast"), message, help)
    };
    inputs.map(problem).collect()
}

fn fit_outputs(
    loaded: &Loaded,
    descriptor: &PluginDescriptor,
    problems: &mut Vec<Problem>,
) -> Vec<usize> {
    let config = &loaded.config;
    let configured = |name: &str| config.outputs.iter().position(|output| output.name == name);
    let known: Vec<&str> = descriptor.outputs.iter().map(String::as_str).collect();
    let mut outputs = Vec::new();
    for name in &known {
        match configured(name) {
            Some(at) => outputs.push(at),
            None => problems.push(loaded.problem(
                "outputs",
                format!("the plugin's output `{name}` has no destination"),
                format!("outputs: {{ {name}: {{ topic: … }} }}"),
            )),
        }
    }
    let host_writes_late = config.inputs.iter().any(|input| input.late == LatePolicy::SideOutput);
    for (at, output) in config.outputs.iter().enumerate() {
        if known.contains(&output.name.as_str()) {
            continue;
        }
        if output.name == "late" && host_writes_late {
            outputs.push(at);
            continue;
        }
        let near = nearest(&output.name, known.iter().copied())
            .map_or_else(String::new, |word| format!("; did you mean `{word}`?"));
        problems.push(loaded.problem(
            &format!("outputs.{}", output.name),
            format!("nothing writes to the output `{}`{near}", output.name),
            format!("the plugin's outputs are {}", one_of(&known)),
        ));
    }
    outputs
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::{Environment, load_text};

    fn fit(outputs: &[usize]) -> Fit {
        Fit { roles: vec![0, 1], outputs: outputs.to_vec(), late_output: None }
    }

    #[test]
    fn plugin_and_configuration_must_say_alike_which_inputs_are_broadcast() {
        let loaded = |broadcast: &str| {
            let text = format!(
                "pipeline: p\ninputs:\n  orders: {{ file: a, key: {{ from: value, path: $.id }} }}\n  \
                 rules: {{ file: b, key: {{ from: value, path: $.id }}{broadcast} }}\n\
                 plugin: {{ file: p.wasm }}\n"
            );
            let environment = Environment::of_process(&[]);
            load_text("p.yaml", text, Path::new("/"), &environment).unwrap()
        };
        let descriptor = |broadcast: &[&str]| PluginDescriptor {
            inputs: vec!["orders".to_owned(), "rules".to_owned()],
            broadcast: broadcast.iter().map(|name| (*name).to_owned()).collect(),
            ..PluginDescriptor::default()
        };
        let said = |broadcast: &str, wanted: &[&str]| {
            let problems = super::fit(&loaded(broadcast), &descriptor(wanted)).unwrap_err();
            problems.into_iter().map(|problem| problem.message).collect::<Vec<_>>().join("; ")
        };
        assert!(super::fit(&loaded(", broadcast: true"), &descriptor(&["rules"])).is_ok());
        assert!(super::fit(&loaded(""), &descriptor(&[])).is_ok());
        let wants = "the plugin wants every lane to read all of its role `rules`";
        assert_eq!(said("", &["rules"]), wants);
        let keyed = "the plugin's role `rules` is keyed, and `rules` is `broadcast: true`";
        assert_eq!(said(", broadcast: true", &[]), keyed);
    }

    #[test]
    fn outputs_in_another_order_keep_the_numbers_of_the_first_revision() {
        let first = fit(&[2, 0, 1]);
        assert_eq!(fit(&[2, 0, 1]).renumbered(&first, 3), None);
        assert_eq!(fit(&[0, 1, 2]).renumbered(&first, 3), Some(vec![1, 2, 0]));
        // The last one is written by the host alone, and the plugin cannot name it.
        assert_eq!(fit(&[0, 1, 2]).renumbered(&first, 2), Some(vec![1, 2]));
    }
}
