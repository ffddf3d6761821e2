//! `getClusterParameter`: returns the values of cluster parameters.

use crate::core::command::prelude::*;
use crate::settings::cluster_params;

pub(in crate::commands) static GET_CLUSTER_PARAMETER: Command = Command {
    facts: Facts {
        name: "getClusterParameter",
        help: "Shows cluster parameters.",
        admin_only: true,
        ..Facts::ROW
    },
    access: Access::Cluster(&[Action::GetClusterParameter]),
    run,
    audited: Some(|req, out| {
        out.put("requestedClusterServerParameters", req.body.get("getClusterParameter"));
    }),
    ..Command::ROW
};

args! { "getClusterParameter" => Args {
    wanted: Value<'a> = "getClusterParameter",
}}

fn run(cx: &mut Context<'_>, req: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    let wrong = |found: Value<'_>| {
        err!(
            Code::TYPE_MISMATCH,
            "BSON field 'getClusterParameter.getClusterParameter' is the wrong type '{}', expected \
             types '[string, array]'",
            found.kind().name()
        )
    };
    let names: Vec<&str> = match args.wanted {
        Value::String("*") => cluster_params::names()
            .filter(|name| cx.server.audit.is_some() || *name != cluster_params::AUDIT_CONFIG)
            .collect(),
        Value::String(name) => vec![name],
        Value::Array(list) => {
            list.iter().map(|v| v.as_str().ok_or_else(|| wrong(v))).collect::<Result<_>>()?
        }
        other => return Err(wrong(other)),
    };
    if names.is_empty() {
        bail!(
            Code::BAD_VALUE,
            "Must supply at least one cluster server parameter name to getClusterParameter"
        );
    }
    let server = cx.server;
    let found = names.iter().map(|name| server.settings.cluster_params.show(&server.store, name));
    let found = found.collect::<Result<Vec<_>>>()?;
    out.array("clusterParameters", |list| found.iter().for_each(|doc| list.push_doc(doc.as_doc())));
    Ok(())
}
