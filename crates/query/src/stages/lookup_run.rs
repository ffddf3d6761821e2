//! The running `$lookup`: joins a batch of documents by an index, or each document by a plan or a hash table.

use std::sync::Arc;

use nagi_bson::{Array, ArrayWriter, ValueBuf};
use nagi_lang::{
    collation::Collation,
    expr::Vars,
    filter::{CompareOp, Filter, InList, Pred},
    path::{self, FieldPath, Leaf},
};
use nagi_store::Index;

use super::{
    hash_join::{Recipe, Table},
    inner::{Target, Used},
    join::{self, Batch, Way},
    lookup::Lookup,
    paths::write_replaced,
    prelude::*,
};
use crate::source::{ExecutionStats, SourceStats, sum_stats};

/// The running join.
pub(super) struct Running {
    pub(super) input: Box<dyn Source>,
    pub(super) lookup: Arc<Lookup>,
    /// The waiting input documents; none if each document is read and joined in its turn.
    pub(super) batch: Option<Batch>,
    /// True if the batch was joined, or if its documents are joined in their turn.
    is_joined: bool,
    /// The index with which the batch was joined.
    index: Option<Arc<Index>>,
    pub(super) found: Vec<u8>,
    out: Vec<u8>,
    arena: Bump,
    /// Statistics of the other collection.
    pub(super) examined: ExecutionStats,
    used: Used,
    /// The resolved namespace, once a document of this batch needed it.
    target: Option<Target>,
    hash: Hash,
    /// True if an index serves the condition of each document; none until it is known.
    is_served: Option<bool>,
    /// True if any document was joined by a table that finds rows by values.
    was_hashed: bool,
}

/// The state of the hash join.
enum Hash {
    /// No document has read rows that others also read.
    Unneeded,
    /// One document has; the next such document builds the table.
    Needed,
    Made(Box<Table>),
    /// The table was built, or did not fit, in the previous batch; the next document builds it.
    Gone,
    /// The table does not fit into memory.
    Refused,
    /// A table is of no use.
    Useless,
}

/// The values of a local document that foreign values must equal.
fn local_values(doc: Doc<'_>, local: &FieldPath) -> Result<Vec<ValueBuf>> {
    let mut values = Vec::new();
    path::any(doc, local, Leaf::Whole, &mut |value, _| {
        match value {
            Value::Array(array) => values.extend(array.iter().map(ValueBuf::new)),
            Value::Missing => {}
            value => values.push(ValueBuf::new(value)),
        }
        Ok(false)
    })?;
    if values.is_empty() {
        values.push(ValueBuf::new(Value::Null));
    }
    for value in &mut values {
        // Undefined is equal to the same values as null here.
        if matches!(value.value(), Value::Undefined) {
            *value = ValueBuf::new(Value::Null);
        }
    }
    Ok(values)
}

/// The condition on foreign documents: equal to one of these values.
fn equality(
    values: &[ValueBuf],
    foreign: &FieldPath,
    collation: Option<&'static Collation>,
) -> Filter {
    let pred = match values {
        [value] => Pred::Compare { op: CompareOp::Eq, value: value.clone(), collation },
        values => Pred::In(InList::collated(values.to_vec(), Vec::new(), collation)),
    };
    Filter::Field { path: foreign.clone(), pred }
}

impl Running {
    pub(super) fn new(input: Box<dyn Source>, lookup: &Arc<Lookup>) -> Running {
        // Other expressions of a document are evaluated when its turn comes, so a batch cannot be used.
        let joins = lookup.equality.is_some()
            && lookup.lets.is_empty()
            && lookup.inner.is_plain()
            && lookup.inner.collation.is_none();
        Running {
            input,
            lookup: Arc::clone(lookup),
            batch: joins.then(Batch::default),
            is_joined: false,
            index: None,
            found: Vec::new(),
            out: Vec::new(),
            arena: Bump::new(),
            examined: ExecutionStats::default(),
            used: Used::default(),
            target: None,
            hash: Hash::Unneeded,
            is_served: None,
            was_hashed: false,
        }
    }

    /// The current input document.
    pub(super) fn current(&self) -> Doc<'_> {
        self.batch.as_ref().map_or_else(|| self.input.doc(), Batch::doc)
    }

    /// Fills `found` with the joined documents of the current one, if the batch has them; otherwise returns false.
    pub(super) fn find_joined(&mut self, cx: &Cx<'_>) -> Result<bool> {
        let Some(batch) = &self.batch else { return Ok(false) };
        self.found.clear();
        let mut array = ArrayWriter::new(&mut self.found);
        let lookup = &*self.lookup;
        let entries = batch.write(&mut array, &|bytes| lookup.check_size(bytes))?;
        array.finish();
        let Some(entries) = entries else { return Ok(false) };
        self.examined.keys_examined += entries;
        self.examined.docs_examined += entries;
        cx.examined_keys(entries);
        if let Some(index) = &self.index {
            self.used.note_index(index, cx);
        }
        Ok(true)
    }

    /// The values of the variables for the current document.
    pub(super) fn let_values(&self, cx: &Cx<'_>) -> Result<Vec<ValueBuf>> {
        // With a batch, the input is ahead of the current document.
        if self.lookup.lets.is_empty() {
            return Ok(Vec::new());
        }
        let eval = cx.eval_current(&*self.input, &self.arena);
        self.lookup.lets.iter().map(|expr| Ok(ValueBuf::new(expr.eval(&eval)?))).collect()
    }

    /// Opens the joined documents of the current one; `cx` has the values of the variables.
    pub(super) fn open_found(&mut self, cx: &mut Cx<'_>) -> Result<Box<dyn Source>> {
        let lookup = Arc::clone(&self.lookup);
        let values = match &lookup.equality {
            Some((local, _)) => local_values(self.current(), local)?,
            None => Vec::new(),
        };
        let condition = || {
            let (_, foreign) = lookup.equality.as_ref()?;
            Some(equality(&values, foreign, lookup.inner.collation))
        };
        if let Some(source) = self.open_hashed(&values, &condition, cx) {
            return Ok(source);
        }
        let target = match self.target.take() {
            Some(target) => target,
            None => lookup.inner.target(cx)?,
        };
        let mut used = Used::default();
        let source = lookup.inner.open_noting(&target, condition(), &mut used, cx)?;
        let asks = matches!(self.hash, Hash::Unneeded | Hash::Needed);
        let rereads = asks && self.rereads(&used, &target, cx)?;
        match self.hash {
            Hash::Unneeded if rereads => self.hash = Hash::Needed,
            Hash::Needed if rereads => self.hash = self.make_table(&target, cx)?,
            Hash::Gone => self.hash = self.make_table(&target, cx)?,
            _ => {}
        }
        self.target = Some(target);
        // The plan is not run if the table has just been built.
        if let Some(source) = self.open_hashed(&values, &condition, cx) {
            return Ok(source);
        }
        self.used.add(used);
        Ok(source)
    }

    /// Opens them by the table, if there is one.
    fn open_hashed(
        &mut self,
        values: &[ValueBuf],
        condition: &dyn Fn() -> Option<Filter>,
        cx: &Cx<'_>,
    ) -> Option<Box<dyn Source>> {
        let Hash::Made(table) = &self.hash else { return None };
        let source = table.open(condition().map(|filter| (values, filter)), cx)?;
        self.was_hashed |= table.has_key();
        Some(source)
    }

    /// Returns true if the plan recorded in `used` reads the same rows for every document, so that a table pays.
    fn rereads(&mut self, used: &Used, target: &Target, cx: &mut Cx<'_>) -> Result<bool> {
        let inner = &self.lookup.inner;
        if used.scans() || (self.lookup.equality.is_none() && inner.is_independent()) {
            return Ok(true);
        }
        let is_served = match self.is_served {
            Some(is_served) => is_served,
            None => match Recipe::of(inner, target, self.foreign())? {
                Some(recipe) if recipe.has_key() && !recipe.halves.first.stages.is_empty() => {
                    !inner.reads_alike(&recipe.halves, used, cx)?
                }
                _ => true,
            },
        };
        self.is_served = Some(is_served);
        Ok(!is_served)
    }

    fn foreign(&self) -> Option<&FieldPath> {
        self.lookup.equality.as_ref().map(|(_, foreign)| foreign)
    }

    fn make_table(&mut self, target: &Target, cx: &mut Cx<'_>) -> Result<Hash> {
        let inner = &self.lookup.inner;
        let Some(recipe) = Recipe::of(inner, target, self.foreign())? else {
            return Ok(Hash::Useless);
        };
        let mut used = Used::default();
        let table = recipe.read(inner, &mut used, &mut self.examined, cx);
        self.used.add(used);
        match table {
            Ok(Some(table)) => Ok(Hash::Made(Box::new(table))),
            Ok(None) => Ok(Hash::Refused),
            // Joining document by document may never reach the row that fails.
            Err(_) => cx.env.interrupt().check().map(|()| Hash::Refused),
        }
    }

    /// The name of the join strategy in explain.
    fn strategy(&self) -> Option<&'static str> {
        let is_join = self.lookup.equality.is_some() || self.lookup.compares;
        is_join.then_some(match () {
            () if self.was_hashed => "HashJoin",
            () if self.index.is_some() || !self.used.indexes.is_empty() => "IndexedLoopJoin",
            () => "NestedLoopJoin",
        })
    }

    /// Fills `found` with the joined documents of the current one.
    fn find(&mut self, cx: &mut Cx<'_>) -> Result<()> {
        if self.find_joined(cx)? {
            return Ok(());
        }
        let values = self.let_values(cx)?;
        let values: Vec<Value<'_>> =
            cx.vars.lets.iter().copied().chain(values.iter().map(ValueBuf::value)).collect();
        let vars = Vars { lets: &values, ..cx.vars.clone() };
        let mut inner_cx = Cx { store: cx.store, reader: cx.reader, vars: &vars, env: cx.env };
        let mut source = self.open_found(&mut inner_cx)?;
        self.found.clear();
        let mut array = ArrayWriter::new(&mut self.found);
        while source.advance(&mut inner_cx)? {
            inner_cx.writing(array.len() + source.doc().len())?;
            array.push_doc(source.doc());
            self.lookup.check_size(array.len())?;
        }
        array.finish();
        sum_stats(&mut *source, &mut self.examined);
        Ok(())
    }

    /// Moves to the next input document. Returns false at the end.
    pub(super) fn next(&mut self, cx: &mut Cx<'_>) -> Result<bool> {
        let Some(batch) = &mut self.batch else { return self.input.advance(cx) };
        if batch.is_empty() {
            self.is_joined = false;
            if !batch.gather(&mut *self.input, cx)? {
                return Ok(false);
            }
        }
        if !self.is_joined {
            self.join(cx)?;
            self.is_joined = true;
        }
        if let Some(batch) = &mut self.batch {
            batch.advance();
        }
        Ok(true)
    }

    /// Joins the waiting documents together, if an index serves.
    fn join(&mut self, cx: &mut Cx<'_>) -> Result<()> {
        let lookup = &*self.lookup;
        let (Some(batch), Some((local, foreign))) = (&mut self.batch, &lookup.equality) else {
            return Ok(());
        };
        let Some(example) = batch.example(local)? else { return Ok(()) };
        let filter = equality(&local_values(example, local)?, foreign, None);
        match lookup.inner.index_for(filter, cx)? {
            Some((collection, index)) if join::serves(&index, foreign) => {
                self.index = Some(index.clone());
                batch.join(&Way { collection, index }, local, cx)
            }
            _ => Ok(()),
        }
    }
}

impl Source for Running {
    fn advance(&mut self, cx: &mut Cx<'_>) -> Result<bool> {
        if !self.next(cx)? {
            return Ok(false);
        }
        self.find(cx)?;
        renew(&mut self.arena);
        self.out.clear();
        let doc = self.batch.as_ref().map_or_else(|| self.input.doc(), Batch::doc);
        cx.writing(doc.len() + self.found.len())?;
        let found = Value::Array(Array::trusted(&self.found));
        write_replaced(&mut DocWriter::new(&mut self.out), doc, &self.lookup.to, found);
        Ok(true)
    }

    fn doc(&self) -> Doc<'_> {
        Doc::trusted(&self.out)
    }

    fn meta(&self) -> Doc<'_> {
        self.batch.as_ref().map_or_else(|| self.input.meta(), Batch::meta)
    }

    fn save(&mut self) {
        if let Some(batch) = &mut self.batch {
            batch.save();
        }
        self.is_joined = false;
        self.target = None;
        if let Hash::Made(_) | Hash::Refused = self.hash {
            self.hash = Hash::Gone;
        }
        self.input.save();
    }

    fn inputs(&mut self) -> &mut [Box<dyn Source>] {
        slice::from_mut(&mut self.input)
    }

    fn stats(&self) -> SourceStats {
        SourceStats {
            keys_examined: self.examined.keys_examined,
            docs_examined: self.examined.docs_examined,
            ..SourceStats::default()
        }
    }

    fn show_run(&self, out: &mut DocWriter<'_>) {
        out.put("totalDocsExamined", self.examined.docs_examined as i64);
        out.put("totalKeysExamined", self.examined.keys_examined as i64);
        out.put("collectionScans", self.used.collection_scans as i64);
        out.array("indexesUsed", |out| self.used.indexes.iter().for_each(|name| out.push(&**name)));
        if let Some(strategy) = self.strategy() {
            out.put("strategy", strategy);
        }
    }
}
