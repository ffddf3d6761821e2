//! `mapReduce` as the equivalent pipeline: the emitted pairs of the map function are unwound, grouped by key with
//! the reduce function as accumulator, finalized, and written or returned.
//!
//! It is planned, run, spilled, interrupted and explained like any other pipeline.

use std::sync::Arc;

use nagi_bson::{ArrayBuf, ArrayWriter, Doc, DocWriter, Value};
use nagi_error::{Code, Result, bail};
use nagi_lang::collation::Asked;
use nagi_store::{Namespace, Store};

use crate::{
    limits::QueryOptions,
    request::{
        aggregate::{self, AggregateRequest},
        execution::Execution,
    },
    source::Env,
};

/// The destination of the results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MapReduceOut<'a> {
    /// The results are returned in the reply.
    Inline,
    /// They replace the contents of a collection.
    Replace(&'a Namespace),
    /// They replace the documents with the same keys in a collection.
    Merge(&'a Namespace),
    /// They are reduced with the documents of the same keys in a collection.
    Reduce(&'a Namespace),
}

/// The arguments of `mapReduce`. Functions are given as text; the caller provides the script engine
/// (`Interrupt::scripts`), which has the variables around them.
#[derive(Debug, Clone, Copy)]
pub struct MapReduceRequest<'a> {
    pub collation: Asked,
    pub namespace: &'a Namespace,
    pub map: &'a str,
    pub reduce: &'a str,
    pub finalize: Option<&'a str>,
    pub filter: Doc<'a>,
    pub sort: Doc<'a>,
    pub limit: Option<u64>,
    pub out: MapReduceOut<'a>,
    pub bypass_validation: bool,
    /// Options from the server's parameters.
    pub options: QueryOptions,
}

impl<'a> MapReduceRequest<'a> {
    /// The stages of the pipeline.
    ///
    /// # Errors
    /// 166 for a view.
    pub(crate) fn pipeline(&self, store: &Store) -> Result<ArrayBuf> {
        if store.collection(self.namespace).is_some_and(|c| c.is_view()) {
            bail!(
                Code::COMMAND_NOT_SUPPORTED_ON_VIEW,
                "Namespace {} is a view, not a collection",
                self.namespace
            );
        }
        Ok(ArrayBuf::build(|out| {
            self.write_input(out);
            self.write_reduction(out);
            if let Some(finalize) = self.finalize {
                write_call(out, finalize, &|args| args.push("$value"));
            }
            self.write_output(out);
        }))
    }

    /// The aggregation request for the pipeline.
    pub(crate) fn aggregate<'p>(&self, pipeline: &'p ArrayBuf) -> AggregateRequest<'p>
    where
        'a: 'p,
    {
        AggregateRequest {
            bypass_validation: self.bypass_validation,
            options: self.options,
            collation: self.collation,
            ..AggregateRequest::new(self.namespace, pipeline.as_array())
        }
    }

    fn write_input(&self, out: &mut ArrayWriter<'_>) {
        if !self.filter.is_empty() {
            out.doc(|out| out.put("$match", self.filter));
        }
        if !self.sort.is_empty() {
            out.doc(|out| out.put("$sort", self.sort));
        }
        if let Some(limit) = self.limit {
            out.doc(|out| out.put("$limit", limit as i64));
        }
    }

    fn write_reduction(&self, out: &mut ArrayWriter<'_>) {
        stage(out, "$project", |out| {
            out.doc("emits", |out| {
                out.doc("$_internalJsEmit", |out| {
                    out.put("eval", self.map);
                    out.put("this", "$$ROOT");
                });
            });
            out.put("_id", false);
        });
        out.doc(|out| out.put("$unwind", "$emits"));
        stage(out, "$group", |out| {
            out.put("_id", "$emits.k");
            out.doc("value", |out| {
                out.doc("$_internalJsReduce", |out| {
                    out.put("data", "$emits");
                    out.put("eval", self.reduce);
                });
            });
        });
        stage(out, "$sort", |out| out.put("_id", 1));
    }

    fn write_output(&self, out: &mut ArrayWriter<'_>) {
        let place = |out: &mut DocWriter<'_>, ns: &Namespace| {
            out.put("db", ns.database());
            out.put("coll", ns.collection());
        };
        match self.out {
            MapReduceOut::Inline => {}
            MapReduceOut::Replace(ns) => stage(out, "$out", |out| place(out, ns)),
            MapReduceOut::Merge(ns) => stage(out, "$merge", |out| {
                out.doc("into", |out| place(out, ns));
                out.put("whenMatched", "replace");
                out.put("whenNotMatched", "insert");
            }),
            MapReduceOut::Reduce(ns) => stage(out, "$merge", |out| {
                out.doc("into", |out| place(out, ns));
                // The old and the new value are reduced to one and finalized again.
                out.array("whenMatched", |out| {
                    write_call(out, self.reduce, &|args| {
                        args.array(|out| {
                            out.push("$value");
                            out.push("$$new.value");
                        });
                    });
                    if let Some(finalize) = self.finalize {
                        write_call(out, finalize, &|args| args.push("$value"));
                    }
                });
                out.put("whenNotMatched", "insert");
            }),
        }
    }
}

fn stage(out: &mut ArrayWriter<'_>, name: &str, fill: impl FnOnce(&mut DocWriter<'_>)) {
    out.doc(|out| out.doc(name, fill));
}

/// Writes the stage that replaces `value` by a function's result for the key and `arg`.
fn write_call(out: &mut ArrayWriter<'_>, function: &str, arg: &dyn Fn(&mut ArrayWriter<'_>)) {
    stage(out, "$project", |out| {
        out.doc("value", |out| {
            out.doc("$function", |out| {
                out.put("body", Value::Code(function));
                out.array("args", |out| {
                    out.push("$_id");
                    arg(out);
                });
                out.put("lang", "js");
            });
        });
    });
}

/// Plans and opens a `mapReduce`. It yields documents `{_id, value}` by key, or none if they are written to a
/// collection.
///
/// # Errors
/// 166 for a view; errors of the filter and the sort, and of `$out` and `$merge`.
pub fn map_reduce(
    store: &Arc<Store>,
    request: &MapReduceRequest<'_>,
    env: &Env<'_>,
) -> Result<Execution> {
    let pipeline = request.pipeline(store)?;
    aggregate::aggregate(store, &request.aggregate(&pipeline), env)
}
