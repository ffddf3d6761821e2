//! `$listLocalCursors`: the cursors that wait for their next request. The stage exists only with
//! `enableTestCommands`; otherwise its name is unknown.

use super::{OwnStage, check_collectionless};
use crate::commands::crud::aggregate::Args;
use crate::commands::diagnose::list_cursors;
use crate::core::command::prelude::*;
use crate::core::server::Server;

pub(super) static LIST_LOCAL_CURSORS: OwnStage = OwnStage {
    name: "$listLocalCursors",
    is_on: |server: &Server| server.settings.params.bool("enableTestCommands"),
    access: Some(|asking, _, _| asking.on_cluster(Action::ListCursors)),
    docs,
    ..OwnStage::ROW
};

fn docs(
    cx: &Context<'_>,
    _: &Request<'_>,
    args: &Args<'_>,
    spec: Value<'_>,
) -> Result<Vec<DocBuf>> {
    check_collectionless("$listLocalCursors", args)?;
    if !spec.as_doc().is_some_and(|spec| spec.is_empty()) {
        bail!(Code::BAD_VALUE, "$listLocalCursors must be run as {{ $listLocalCursors: {{}}}}");
    }
    Ok(list_cursors(cx.server))
}
