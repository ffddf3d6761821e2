//! `getParameter`: returns the values of server parameters.

use crate::args::check_other;
use crate::core::command::prelude::*;
use crate::core::parameters;
use crate::request::is_generic;
use crate::settings::params::PARAMETERS;

pub(in crate::commands) static GET_PARAMETER: Command = Command {
    facts: Facts {
        name: "getParameter",
        help: "Reads server parameters.",
        admin_only: true,
        ..Facts::ROW
    },
    access: Access::Cluster(&[Action::GetParameter]),
    run,
    ..Command::ROW
};

fn run(cx: &mut Context<'_>, req: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    let first = req.body.get("getParameter");
    let server = cx.server;
    let mut found = false;
    if first.as_str() == Some("*") {
        parameters::write_all(server, out);
        return Ok(());
    }
    let options = first.as_doc();
    let option = |name| -> Result<bool> {
        let Some(options) = options else { return Ok(false) };
        let given: Option<StrictBool> = args::read(options, "getParameter", name)?;
        Ok(given == Some(StrictBool(true)))
    };
    let (details, all) = (option("showDetails")?, option("allParameters")?);
    for (index, param) in PARAMETERS.iter().enumerate() {
        if all || !req.body.get(param.name).is_missing() {
            found = true;
            match details {
                true => parameters::write_details(server, index, out),
                false => server.settings.params.write(server, index, out),
            }
        }
    }
    if !found {
        let asked = req.body.iter().skip(1).any(|e| !is_generic(e.name()));
        if !asked && options.is_none() {
            return check_other("getParameter", "getParameter", true).or(no_option());
        }
        return no_option();
    }
    Ok(())
}

fn no_option() -> Result<()> {
    bail!(Code::INVALID_OPTIONS, "no option found to get")
}
