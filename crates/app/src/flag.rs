//! Flags of the commands other than `serve`: one row for each, of which parsing, help and completions are made.

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
