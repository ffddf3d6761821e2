//! `setParameter`: sets one server parameter.

use crate::core::command::prelude::*;
use crate::request::is_generic;
use crate::settings::params;

pub(in crate::commands) static SET_PARAMETER: Command = Command {
    facts: Facts {
        name: "setParameter",
        help: "Sets a server parameter.",
        admin_only: true,
        ..Facts::ROW
    },
    access: Access::Cluster(&[Action::SetParameter]),
    run,
    ..Command::ROW
};

fn run(cx: &mut Context<'_>, req: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    let mut settings = req.body.iter().skip(1).filter(|e| !is_generic(e.name()));
    let Some(setting) = settings.next() else {
        bail!(Code::INVALID_OPTIONS, "no option found to set, use help:true to see options ");
    };
    let Some(index) = params::find(setting.name()) else {
        bail!(
            Code::INVALID_OPTIONS,
            "attempted to set unrecognized parameter [{}], use help:true to see options ",
            setting.name()
        );
    };
    let before = DocBuf::build(|w| cx.server.settings.params.write(cx.server, index, w));
    cx.server.settings.params.set(cx.server, index, setting.value())?;
    out.put("was", before.as_doc().first().map_or(Value::Missing, |e| e.value()));
    log::info!(target: "COMMAND", id = 23_435, parameter = setting.name(),
        newValue = setting.value().to_string(); "Successfully set parameter");
    Ok(())
}
