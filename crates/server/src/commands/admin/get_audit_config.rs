//! `getAuditConfig`: what the audit log records.

use crate::core::command::prelude::*;

pub(in crate::commands) static GET_AUDIT_CONFIG: Command = Command {
    facts: Facts {
        name: "getAuditConfig",
        help: "Shows what the audit log records.",
        admin_only: true,
        ..Facts::ROW
    },
    access: Access::Cluster(&[Action::AuditConfigure]),
    run,
    ..Command::ROW
};

args! { "getAuditConfig" => Args {
    one: Value<'a> = "getAuditConfig",
}}

fn run(cx: &mut Context<'_>, req: &Request<'_>, out: &mut DocWriter<'_>) -> Result<()> {
    Args::parse(req)?;
    let server = cx.server;
    let Some(audit) = &server.audit else {
        bail!(Code::AUDITING_NOT_ENABLED, "Auditing is not enabled");
    };
    let (filter, _) = audit.configuration();
    let stored = server.settings.cluster_params.show(&server.store, "auditConfig")?;
    match stored.get("clusterParameterTime") {
        Value::Missing => out.put("clusterParameterTime", Value::Timestamp(0)),
        time => out.put("clusterParameterTime", time),
    }
    out.put("filter", &filter);
    out.put("auditAuthorizationSuccess", server.audits_successes(audit));
    Ok(())
}
