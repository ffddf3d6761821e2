//! `setAuditConfig`: sets what the audit log records, if its configuration may change at run time.

use crate::clock;
use crate::core::command::prelude::*;

pub(in crate::commands) static SET_AUDIT_CONFIG: Command = Command {
    facts: Facts {
        name: "setAuditConfig",
        help: "Sets what the audit log records.",
        admin_only: true,
        ..Facts::ROW
    },
    access: Access::Cluster(&[Action::AuditConfigure]),
    run,
    ..Command::ROW
};

args! { "setAuditConfig" => Args {
    one:       Value<'a>  = "setAuditConfig",
    filter:    Doc<'a>    = "filter",
    successes: StrictBool = "auditAuthorizationSuccess",
}}

/// The parameter is stored first. Both steps check the filter in the same way, so the second does not fail.
fn run(cx: &mut Context<'_>, req: &Request<'_>, _: &mut DocWriter<'_>) -> Result<()> {
    let args = Args::parse(req)?;
    let wanted = DocBuf::build(|out| {
        out.put("filter", args.filter);
        out.put("auditAuthorizationSuccess", args.successes.0);
    });
    store(cx, wanted.as_doc())
}

/// Stores the cluster parameter `auditConfig`, applies it and records the change.
///
/// # Errors
/// 344 without an audit log, 345 if its configuration is that of the start, and those of the filter.
pub(super) fn store(cx: &mut Context<'_>, wanted: Doc<'_>) -> Result<()> {
    let server = cx.server;
    let Some(audit) = &server.audit else {
        bail!(Code::AUDITING_NOT_ENABLED, "Auditing is not enabled");
    };
    if !audit.is_runtime() {
        bail!(
            Code::RUNTIME_AUDIT_CONFIGURATION_NOT_ENABLED,
            "Runtime audit configuration has not been enabled"
        );
    }
    let _writing = cx.begin_write("config")?;
    let (filter, successes) = audit.configuration();
    let wall = (clock::wall_seconds() as u64) << 32 | 1;
    let now = server.cluster_clock().map_or(wall, |clock| clock.cluster());
    server.settings.cluster_params.set(&server.store, "auditConfig", wanted, now)?;
    server.apply_audit_config()?;
    // By the filter before and by the one after: the change itself must not escape both.
    cx.connection.audit("auditConfigure", Code::OK, |out| {
        out.doc("previous", |out| {
            out.put("filter", &filter);
            out.put("auditAuthorizationSuccess", successes);
        });
        out.put("config", wanted);
    });
    Ok(())
}
