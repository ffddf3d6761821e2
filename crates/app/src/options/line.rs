//! The command line: `--name value`, `--name=value`, `-f file`, `-vvv`.

use super::Settings;
use super::about::{SHORT, about};
use super::nearest;
use super::table::{Kind, Row, TABLE};

/// Reads all arguments.
pub(super) fn read(args: &[String], settings: &mut Settings) -> Result<(), String> {
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        if let Some(count) = verbosity(arg) {
            let row = by_key("systemLog.verbosity");
            settings.set(row, &count.to_string())?;
            continue;
        }
        let (name, mut value) = match arg.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (arg.as_str(), None),
        };
        let Some(row) = find(name) else {
            return Err(match name.starts_with('-') {
                true => {
                    let bare = name.trim_start_matches('-');
                    let use_flag = |name: &str| format!("use --setParameter {name}=VALUE");
                    let meant = nearest::parameter_as_option(bare, use_flag)
                        .unwrap_or_else(|| nearest::flag(bare));
                    unknown(&format!("unrecognised option '{name}'{meant}"))
                }
                false => unknown(&format!(
                    "too many positional options have been specified on the command line: '{arg}'"
                )),
            });
        };
        if value.is_none() {
            value = match row.implied {
                Some(implied) => Some(implied.to_owned()),
                None => args.next().cloned(),
            };
        } else if let (Some(implied), Some("true" | "")) = (row.implied, value.as_deref()) {
            value = Some(implied.to_owned());
        }
        let Some(value) = value else {
            let expected = match row.kind {
                Kind::Text => format!("<{}>", about(row).value),
                kind => kind.accepted(),
            };
            return Err(unknown(&format!(
                "the required argument for option '{name}' is missing; expected {expected}"
            )));
        };
        take(row, &value, settings)?;
    }
    Ok(())
}

/// Stores a value; parameters are split into name and value.
pub(super) fn take(row: &'static Row, value: &str, settings: &mut Settings) -> Result<(), String> {
    if row.key != "setParameter" {
        return settings.set(row, value);
    }
    let Some((name, value)) = value.split_once('=') else {
        return Err(format!("Error: setParameter needs name=value, not '{value}'"));
    };
    if name.ends_with(char::is_whitespace) {
        let name = name.trim_end();
        return Err(format!(
            "Error: setParameter needs name=value; there is a blank before '=' after '{name}'"
        ));
    }
    settings.set_parameter(name, value)
}

fn unknown(what: &str) -> String {
    format!("Error parsing command line: {what}\ntry 'nagi help serve' for more information")
}

/// The number of letters in `-v`, `-vv`, ...; the table limits it to five.
fn verbosity(arg: &str) -> Option<usize> {
    let letters = arg.strip_prefix('-')?;
    (!letters.is_empty() && letters.bytes().all(|b| b == b'v')).then_some(letters.len())
}

fn by_key(key: &str) -> &'static Row {
    TABLE.iter().find(|row| row.key == key).expect("a key of the table")
}

fn find(name: &str) -> Option<&'static Row> {
    let long = SHORT.iter().find(|(_, short)| *short == name).map(|(flag, _)| *flag);
    let flag = long.or_else(|| name.strip_prefix("--")).filter(|flag| !flag.is_empty())?;
    TABLE.iter().find(|row| row.flag == flag)
}

/// The row of a flag's name without dashes (old configuration files).
pub(super) fn by_flag(flag: &str) -> Option<&'static Row> {
    find(&format!("--{flag}"))
}
