//! `setClusterParameter`: sets one cluster parameter.

use crate::clock;
use crate::core::command::prelude::*;
use crate::settings::cluster_params;

pub(in crate::commands) static SET_CLUSTER_PARAMETER: Command = Command {
    facts: Facts {
        name: "setClusterParameter",
        help: "Sets a cluster parameter.",
        admin_only: true,
        write: true,
        ..Facts::ROW
    },
    access: Access::Cluster(&[Action::SetClusterParameter]),
    run,
    audited: Some(|req, out| {
        out.put("updatedClusterServerParameter", req.body.get("setClusterParameter"));
    }),
    ..Command::ROW
};

args! { "setClusterParameter" => Args {
    given: Doc<'a> = "setClusterParameter",
}}

fn run(cx: &mut Context<'_>, req: &Request<'_>, _: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    let mut fields = args.given.iter();
    let (Some(field), None) = (fields.next(), fields.next()) else {
        bail!(Code::BAD_VALUE, "setClusterParameter only supports setting exactly one parameter");
    };
    let Value::Doc(value) = field.value() else {
        bail!(Code::BAD_VALUE, "Cluster parameter value must be an object");
    };
    if field.name() == cluster_params::AUDIT_CONFIG {
        return super::set_audit_config::store(cx, value);
    }
    let _writing = cx.begin_write("config")?;
    let server = cx.server;
    let wall = (clock::wall_seconds() as u64) << 32 | 1;
    let now = server.cluster_clock().map_or(wall, |clock| clock.cluster());
    server.settings.cluster_params.set(&server.store, field.name(), value, now)
}
