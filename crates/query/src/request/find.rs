//! `find`: from the command's arguments to an execution.

use std::sync::Arc;

use nagi_error::Result;
use nagi_lang::expr::Vars;
use nagi_store::{Index, Store};

use crate::{
    collating,
    plan::{
        self, Plan,
        find::{FindRequest, parse, spec},
    },
    request::{
        aggregate::{self, AggregateRequest},
        execution::{Execution, Parts, Purpose},
    },
    source::{Cx, Env},
};

/// Plans and opens a `find`. `env` belongs to the request; its interrupt also cancels planning.
pub fn find(store: &Arc<Store>, request: &FindRequest<'_>, env: &Env<'_>) -> Result<Execution> {
    let collection = store.collection(request.namespace);
    if collection.as_ref().is_some_and(|c| c.is_view()) {
        let (pipeline, hint) = aggregate::of_find(request)?;
        let mut on_view = AggregateRequest::new(request.namespace, pipeline.as_array());
        on_view.let_vars = request.let_vars;
        on_view.options = request.options;
        on_view.hint = hint;
        on_view.collation = request.collation;
        return aggregate::aggregate(store, &on_view, env);
    }
    let collation = collating::of(collection.as_deref(), request.collation)?;
    let parsed = parse(request, collation, env)?;
    let snapshot = store.snapshot()?;
    let noted = Index::multikey_changes();
    let spec = spec(request, &parsed, collection.clone());
    let mut plan = {
        let values = parsed.lets.values();
        let vars =
            Vars::with_system(&values, env.system()).with_scripts(env.scripts()).with_pace(env);
        let mut cx = Cx { store, reader: snapshot.reader(), vars: &vars, env };
        plan::plan(&spec, &mut cx)?
    };
    let root = plan.start_top(env);
    Ok(Execution::new(Parts {
        store: store.clone(),
        root,
        snapshot,
        lets: parsed.lets,
        now_ms: env.now_ms(),
        system: env.system().clone(),
        settings: env.settings().cloned(),
        purpose: Purpose::Find,
        reads: plan::reads(collection, &plan),
        summary: summary(&plan),
        blocking_sort: plan.root.has_blocking_sort(),
        planned: plan.planned(),
        tailable: request.tailable,
        wants_token: request.request_token,
        noted,
        shown: env.interrupt().wants_stages().then(|| Arc::clone(&plan.root)),
        stream: None,
    }))
}

pub(crate) fn summary(plan: &Plan) -> String {
    let mut out = String::new();
    plan.root.summary(&mut out);
    out
}
