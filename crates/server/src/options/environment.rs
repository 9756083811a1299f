//! Options as variables of the environment: `LARDER_MEMORY_LIMIT=64` for `--memory-limit 64`.
//!
//! A variable that names no option is not an error but a line at the start, because the
//! environment is shared: Kubernetes sets variables for every service of a namespace, and those of
//! a service called larder begin with the same prefix. One of these even looks like `--port`.

use super::declare::DECLARATIONS;
use super::kind::Declaration;
use super::nearest::suggestion;
use super::settings::Layer;

const PREFIX: &str = "LARDER_";

/// How Kubernetes begins the address of a service, in the variable that is also that of `--port`.
const SERVICE_VALUE: &str = "tcp://";

/// Prefixes of the other variables of a service called larder.
const SERVICE_NAMES: [&str; 2] = ["LARDER_SERVICE_", "LARDER_PORT_"];

/// The options in the environment.
#[derive(Default)]
pub struct Environment {
    /// The options.
    pub layer: Layer,
    /// Variables that name no option.
    pub warnings: Vec<String>,
    /// Errors in its values.
    pub errors: Vec<String>,
}

/// Returns the variable of an option.
pub fn variable(declaration: &Declaration) -> String {
    format!("{PREFIX}{}", declaration.long.to_uppercase().replace('-', "_"))
}

/// Whether a variable may be meant for the program.
pub fn is_variable(name: &str) -> bool {
    name.starts_with(PREFIX)
}

/// Reads the variables that may be meant for the program.
pub fn read<'v>(variables: impl IntoIterator<Item = &'v (String, String)>) -> Environment {
    let mut read = Environment::default();
    for (name, value) in variables {
        if is_of_a_service(name, value) {
            continue;
        }
        let mut settings = DECLARATIONS.iter().filter(|known| known.is_setting());
        match settings.find(|known| variable(known) == *name) {
            Some(declaration) => {
                let added = match value.as_str() {
                    "" => Err(format!("{name} is empty; unset it, or give it a value")),
                    value => read.layer.add(declaration, value, name),
                };
                read.errors.extend(added.err());
            }
            None => {
                let known = DECLARATIONS.iter().filter(|known| known.is_setting()).map(variable);
                let known = known.map(|known| known[PREFIX.len()..].to_owned());
                let suggestion = suggestion(&name[PREFIX.len()..], known, PREFIX);
                read.warnings.push(format!("the variable {name} is not an option{suggestion}"));
            }
        }
    }
    read
}

/// Whether Kubernetes set the variable for a service called larder.
fn is_of_a_service(name: &str, value: &str) -> bool {
    let is_port = name == "LARDER_PORT" && value.starts_with(SERVICE_VALUE);
    is_port || SERVICE_NAMES.iter().any(|beginning| name.starts_with(beginning))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str, value: &str) -> Environment {
        read(&[(name.to_owned(), value.to_owned())])
    }

    #[test]
    fn a_variable_is_its_option_and_other_variables_are_not() {
        assert_eq!(of("LARDER_MEMORY_LIMIT", "7").layer.last("memory-limit"), Some("7"));
        assert_eq!(of("LARDER_DISABLE_CAS", "true").layer.last("disable-cas"), Some(""));
        assert_eq!(of("LARDER_CONFIG", "x").layer.last("config"), Some("x"));
        for (name, value, error) in [
            ("LARDER_PORT", "x", "LARDER_PORT takes a port from 0 to 65535, not x"),
            ("LARDER_DISABLE_CAS", "yes", "LARDER_DISABLE_CAS takes true or false, not yes"),
            ("LARDER_USER", "", "LARDER_USER is empty; unset it, or give it a value"),
        ] {
            assert_eq!(of(name, value).errors, [error]);
        }
        let warning = "the variable LARDER_MEMORY_LIMITS is not an option; did you mean \
                       LARDER_MEMORY_LIMIT?";
        assert_eq!(of("LARDER_MEMORY_LIMITS", "7").warnings, [warning]);
        assert_eq!(of("LARDER_CHECK", "1").warnings.len(), 1);
        // Regression: the common prefix made words similar, so --policy was suggested here.
        let warning = "the variable LARDER_NOSUCH is not an option";
        assert_eq!(of("LARDER_NOSUCH", "1").warnings, [warning]);
    }

    /// In a namespace of Kubernetes with a service called larder, every pod has these.
    #[test]
    fn variables_of_a_service_called_larder_are_no_options() {
        for (name, value) in [
            ("LARDER_PORT", "tcp://10.96.0.7:11211"),
            ("LARDER_SERVICE_HOST", "10.96.0.7"),
            ("LARDER_SERVICE_PORT", "11211"),
            ("LARDER_PORT_11211_TCP", "tcp://10.96.0.7:11211"),
            ("LARDER_PORT_11211_TCP_ADDR", "10.96.0.7"),
        ] {
            let read = of(name, value);
            assert!(read.errors.is_empty() && read.warnings.is_empty(), "{name}");
            assert_eq!(read.layer.last("port"), None);
        }
    }
}
