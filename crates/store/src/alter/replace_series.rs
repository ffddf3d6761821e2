//! The replacement of all measurements of a time series collection: buckets are written to a spare collection, which
//! then takes the place of the collection's own buckets.
//!
//! ```text
//!   spare_buckets     d.system.buckets.tmp.x   temporary, with the options and indexes of d.system.buckets.c
//!   ...               the caller inserts measurements
//!   replace_buckets   d.system.buckets.tmp.x becomes d.system.buckets.c, and d.c a view on it if there is none yet
//! ```

use std::sync::Arc;

use nagi_bson::{Doc, DocBuf, doc};
use nagi_error::{Code, Result, bail};
use nagi_timeseries::Options;

use super::target::TargetFacts;
use crate::{
    BuildOptions, Namespace, Store,
    catalog::{Collection, CollectionOptions},
    store::{
        commit::Replaced,
        ddl::{self, Ddl},
        time_series,
    },
};

impl Store {
    /// Creates an empty temporary collection `spare` for the buckets of the time series collection `namespace`. Its
    /// options and indexes are those of the present buckets; without such, those of a new collection with `options`.
    /// The second part is for [`Store::replace_buckets`].
    ///
    /// # Errors
    /// Those of creating a collection and indexes; 73 for a name that is too long for buckets.
    pub fn spare_buckets(
        &self,
        namespace: &Namespace,
        spare: &Namespace,
        options: &Options,
    ) -> Result<(Arc<Collection>, TargetFacts)> {
        let present = self.buckets_of(namespace);
        let facts = TargetFacts::of(present.as_deref());
        let given = match &present {
            Some(_) => facts.options().to_buf(),
            None => {
                let given = doc! { "timeseries": (&options.to_doc()) };
                time_series::buckets_options(given.as_doc(), options)
            }
        };
        let given = DocBuf::build(|out| {
            out.extend(given.as_doc());
            out.put("temp", true);
        });
        let created = self.create_collection(spare, given.as_doc())?;
        let first = time_series::first_index(options).filter(|_| present.is_none());
        let own = facts.indexes();
        let specs: Vec<Doc<'_>> = own.chain(first.as_ref().map(DocBuf::as_doc)).collect();
        if !specs.is_empty() {
            self.create_indexes(spare, &specs, BuildOptions::default())?;
        }
        Ok((self.collection(spare).unwrap_or(created), facts))
    }

    /// Makes a collection of [`Store::spare_buckets`] the buckets of the time series collection `namespace`, in one
    /// step. That collection is created if there is none. `facts`: what the old buckets were.
    ///
    /// # Errors
    /// 26 if the spare collection is gone; 48 if another collection or view has got the name meanwhile; 125 if options
    /// or indexes of the buckets have changed meanwhile.
    pub fn replace_buckets(
        &self,
        spare: &Namespace,
        namespace: &Namespace,
        facts: &TargetFacts,
    ) -> Result<()> {
        let name = namespace.buckets()?;
        let mut ddl = Ddl::alone(self, &|catalog| {
            [spare, &name].iter().filter_map(|name| catalog.collection(name).cloned()).collect()
        })?;
        let Some(new) = ddl.collection(spare) else {
            bail!(Code::NAMESPACE_NOT_FOUND, "Source collection {spare} does not exist");
        };
        new.refuse_while_building()?;
        let view = ddl.collection(namespace);
        let old = ddl.collection(&name);
        let is_series = ddl.catalog.buckets_of(namespace).is_some();
        if view.is_some() != is_series {
            bail!(Code::NAMESPACE_EXISTS, "Collection {namespace} already exists.");
        }
        facts.check(namespace, old.as_deref())?;
        let mut replaced = None;
        if let Some(old) = &old {
            old.refuse_while_building()?;
            ddl.replace(old)?;
            replaced = Some(Replaced { uuid: old.uuid, count: old.count() });
        }
        let mut renamed = new.with_indexes(new.indexes.to_vec());
        renamed.namespace = name.clone();
        renamed.options.set_temporary(false);
        ddl.put_over(renamed, replaced)?;
        if let (None, Some(series)) = (&view, &new.options.timeseries) {
            let given = new.options.doc.as_doc();
            let options = time_series::view_options(given, series, &name);
            let options = CollectionOptions::parse(options.as_doc(), namespace)?;
            ddl::create(&mut ddl, namespace, options, None)?;
        }
        ddl.finish()?;
        log::info!(target: "COMMAND", id = 8_200_091, fromName = spare.as_str(), toName = name.as_str();
            "The buckets of a time series collection were replaced");
        Ok(())
    }
}
