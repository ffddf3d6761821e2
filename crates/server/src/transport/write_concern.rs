//! The `writeConcernError` of replies.

use nagi_bson::{DocBuf, DocWriter};
use nagi_error::{Code, Error};

use crate::core::command::Context;
use crate::core::server::Server;
use crate::core::txn_number;
use crate::request::Request;
use crate::transport::errors::tells_topology;

pub(super) fn write_concern_error(
    cx: &Context<'_>,
    request: &Request<'_>,
    error: &DocBuf,
    out: &mut DocWriter<'_>,
) {
    out.put("writeConcernError", error);
    let code = crate::number::truncate(error.get("code")).and_then(|code| i32::try_from(code).ok());
    let code = Code(code.unwrap_or(0));
    if let Some(label) = txn_number::write_concern_label(request, code) {
        out.array("errorLabels", |labels| labels.push(label));
    }
    if tells_topology(cx.server, code) {
        cx.server.identity.topology.write(out);
    }
}

/// The `writeConcernError` of a request whose write concern (its own or the default) this member cannot satisfy.
pub(super) fn unsatisfied(server: &Server, request: &Request<'_>) -> Option<DocBuf> {
    let default = server.settings.rw_defaults.write_concern();
    let (concern, provenance) = match (&request.generic.write_concern, &default) {
        (Some(concern), _) => (concern, "clientSupplied"),
        // The default does not apply to commands that only may write (aggregate).
        (None, Some(default)) if !request.command.read_concern => (default, "customDefault"),
        (None, _) => return None,
    };
    let (code, text) = concern.unsatisfiable(server.router.is_none())?;
    Some(DocBuf::build(|w| {
        w.put("code", code.0);
        w.put("codeName", code.name().as_ref());
        w.put("errmsg", text.as_str());
        w.doc("errInfo", |w| {
            w.doc("writeConcern", |w| {
                concern.write(w);
                w.put("provenance", provenance);
            });
        });
    }))
}

/// Adds the `writeConcernError` to the error of a command that ran and failed on a member, because it may have written
/// before it failed. A command that could not be parsed has not run.
pub(super) fn with_concern(cx: &Context<'_>, request: &Request<'_>, error: Error) -> Error {
    const UNPARSED: &[Code] = &[
        Code::IDL_UNKNOWN_FIELD,
        Code::IDL_FAILED_TO_PARSE,
        Code::IDL_DUPLICATE_FIELD,
        Code::TYPE_MISMATCH,
        Code::INVALID_NAMESPACE,
    ];
    let ran = request.command.write && !UNPARSED.contains(&error.code());
    let concern = unsatisfied(cx.server, request);
    let Some(concern) = concern.filter(|_| ran && cx.server.is_replicated()) else {
        return error;
    };
    let info = DocBuf::build(|w| {
        if let Some(info) = error.info() {
            w.extend(info.as_doc());
        }
        w.put("writeConcernError", &concern);
    });
    error.with_info(info)
}
