//! `setParameter`: sets server parameters.

use crate::core::command::prelude::*;
use crate::request::is_generic;
use crate::settings::params;

pub(in crate::commands) static SET_PARAMETER: Command = Command {
    facts: Facts {
        name: "setParameter",
        help: "Sets server parameters.",
        admin_only: true,
        secret: Secret::Yes,
        ..Facts::ROW
    },
    access: Access::Cluster(&[Action::SetParameter]),
    run,
    ..Command::ROW
};

/// All names, and then all values, are checked before the first parameter is set. `was` is shown if there is only one.
fn run(cx: &mut Context<'_>, req: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    let settings = || req.body.iter().skip(1).filter(|e| !is_generic(e.name()));
    let params = &cx.server.settings.params;
    let mut rows = Vec::new();
    for setting in settings() {
        let Some(index) = params::find(setting.name()) else {
            let meant = params::similar_parameter(setting.name());
            bail!(
                Code::INVALID_OPTIONS,
                "attempted to set unrecognized parameter [{}], use help:true to see options {}",
                setting.name(),
                meant.map(|meant| format!("(did you mean '{meant}'?)")).unwrap_or_default()
            );
        };
        params.check_settable(cx.server, index)?;
        rows.push(index);
    }
    if rows.is_empty() {
        bail!(Code::INVALID_OPTIONS, "no option found to set, use help:true to see options ");
    }
    let only = rows.len() == 1;
    let values =
        settings().zip(&rows).map(|(setting, index)| params::check(*index, setting.value()));
    let values = values.collect::<Result<Vec<_>>>()?;
    for ((setting, index), value) in settings().zip(rows).zip(values) {
        let before = DocBuf::build(|w| params.write(cx.server, index, w));
        params.set(cx.server, index, value)?;
        if only {
            out.put("was", before.as_doc().first().map_or(Value::Missing, |e| e.value()));
        }
        let after = match params::is_secret(index) {
            true => "###".to_owned(),
            false => setting.value().to_string(),
        };
        log::info!(target: "COMMAND", id = 23_435, parameter = setting.name(), newValue = after.as_str();
            "Successfully set parameter");
    }
    Ok(())
}
