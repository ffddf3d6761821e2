//! `$querySettings`: the settings of all query shapes.

use super::OwnStage;
use crate::commands::crud::aggregate::Args;
use crate::core::command::prelude::*;

pub(super) static QUERY_SETTINGS: OwnStage = OwnStage {
    name: "$querySettings",
    access: Some(|asking, _, _| asking.on_cluster(Action::QuerySettings)),
    docs,
    ..OwnStage::ROW
};

args! { "$querySettings" => QuerySettingsSpec {
    show_debug_query_shape: Option<bool> = "showDebugQueryShape",
}}

fn docs(
    cx: &Context<'_>,
    _: &Request<'_>,
    args: &Args<'_>,
    spec: Value<'_>,
) -> Result<Vec<DocBuf>> {
    if matches!(args.collection, Value::String(_)) {
        bail!(Code::INVALID_NAMESPACE, "'$querySettings' can only be run with {{aggregate: 1}}");
    }
    let Value::Doc(spec) = spec else {
        bail!(Code::Location(7_746_801), "$querySettings stage expects a document as argument");
    };
    let spec = QuerySettingsSpec::parse_doc(spec)?;
    Ok(cx.server.settings.query_settings.list(spec.show_debug_query_shape == Some(true)))
}
