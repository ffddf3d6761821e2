//! Flags of the commands other than `serve`: one row for each, of which parsing, help and completions are made.

use crate::options;

/// A flag of a command.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flag {
    /// With dashes.
    pub(crate) name: &'static str,
    /// The short form with its dash; empty if there is none.
    pub(crate) short: &'static str,
    /// The placeholder of the value; a number's is its unit. Empty for a flag without a value.
    pub(crate) value: &'static str,
    /// What applies without the flag.
    pub(crate) default: &'static str,
    /// What it does.
    pub(crate) meaning: &'static str,
}

/// A flag without a value.
pub(crate) const fn switch(name: &'static str, meaning: &'static str) -> Flag {
    Flag { name, short: "", value: "", default: "off", meaning }
}

/// A flag with a value.
pub(crate) const fn takes(
    name: &'static str,
    value: &'static str,
    default: &'static str,
    meaning: &'static str,
) -> Flag {
    Flag { name, short: "", value, default, meaning }
}

impl From<&nagi_doctor::Flag> for Flag {
    fn from(row: &nagi_doctor::Flag) -> Flag {
        let nagi_doctor::Flag { name, short, value, default, meaning } = *row;
        Flag { name, short, value, default, meaning }
    }
}

/// Parses the arguments of a command that knows the flags `known`: calls `take` with the name of each, and its value if
/// it has one.
pub(crate) fn parse(
    args: &[String],
    known: &[Flag],
    mut take: impl FnMut(&'static str, Option<String>) -> Result<(), String>,
) -> Result<(), String> {
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let (name, value) = match arg.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (arg.as_str(), None),
        };
        let Some(flag) = known.iter().find(|flag| flag.name == name) else {
            let names: Vec<&str> = known.iter().map(|flag| flag.name).collect();
            let meant = options::meant_option(name, &names);
            return Err(format!("unrecognised option '{arg}'{meant}"));
        };
        match (flag.value.is_empty(), value) {
            (true, None) => take(flag.name, None)?,
            (true, Some(_)) => return Err(format!("the option '{name}' takes no value")),
            (false, value) => match value.or_else(|| args.next().cloned()) {
                Some(value) => take(flag.name, Some(value))?,
                None => {
                    return Err(format!(
                        "the required argument for option '{name}' is missing: {name} <{}>",
                        flag.value
                    ));
                }
            },
        }
    }
    Ok(())
}
