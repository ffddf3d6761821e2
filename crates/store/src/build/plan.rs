//! Determines the missing indexes of a request, which a build will own.

use std::sync::Arc;

use nagi_bson::text::doc_text;
use nagi_error::{Code, Result, bail};

use crate::{
    Collection, Index, IndexSpec,
    build::bulk::is_worth_it,
    index::{Building, Bulk, Multikey, multikey_words},
    store::ddl::Ddl,
};

/// Limit of the indexes of a collection.
const INDEX_COUNT_MAX: usize = 64;

/// The new indexes of a request, with idents of their own. `ready`: no transaction can have written to the
/// collection, so nothing has to be built.
///
/// # Errors
/// 67, 68, 85, 86; 285 if another build is already building one of them.
pub(super) fn plan(
    ddl: &mut Ddl<'_>,
    collection: &Collection,
    specs: &[IndexSpec],
    ready: bool,
) -> Result<Vec<Arc<Index>>> {
    let planned = missing(collection, specs)?;
    for spec in &planned {
        log::info!(target: "INDEX", id = 20438, namespace = collection.namespace.as_str(),
            index = &*spec.name; "Index build: registering");
    }
    match ready {
        true => {
            planned.into_iter().map(|spec| made(ddl, collection, spec, true)).map(shared).collect()
        }
        false => to_build(ddl, collection, planned, false),
    }
}

/// The specifications whose indexes do not exist yet.
///
/// # Errors
/// Those of [`plan`].
pub(super) fn missing(collection: &Collection, specs: &[IndexSpec]) -> Result<Vec<IndexSpec>> {
    let there: Vec<_> = collection.named_indexes().cloned().collect();
    let mut planned: Vec<IndexSpec> = Vec::new();
    for spec in specs {
        if exists(&there, spec)? {
            continue;
        }
        refuse_twice(&planned, spec)?;
        if there.len() + planned.len() >= INDEX_COUNT_MAX {
            bail!(
                Code::CANNOT_CREATE_INDEX,
                "add index fails, too many indexes for {} key:{}",
                collection.namespace,
                doc_text(spec.key_pattern.as_doc())
            );
        }
        planned.push(spec.clone());
    }
    Ok(planned)
}

/// The indexes that one build fills, all with the same method: in bulk if the collection is large enough.
/// `replaces`: they will replace the indexes of the same names.
pub(crate) fn to_build(
    ddl: &mut Ddl<'_>,
    of: &Collection,
    specs: Vec<IndexSpec>,
    replaces: bool,
) -> Result<Vec<Arc<Index>>> {
    // Decided once, because the collection may grow while the indexes are created.
    let in_bulk = is_worth_it(of);
    let mut build = None;
    let one = |spec| {
        let mut index = made(ddl, of, spec, false)?;
        let build = *build.get_or_insert(index.ident);
        let owner = ddl.store.members.as_ref().map(|members| members.node());
        index.building = Some(Building { build, replaces, owner });
        if owner.is_some() && index.deferred.is_some() {
            index.doubts = Some(ddl.ident()?);
        }
        match in_bulk {
            true => Ok(index.logged(Bulk::new(ddl.ident()?))),
            false => Ok(index),
        }
    };
    specs.into_iter().map(one).map(shared).collect()
}

pub(super) fn made(
    ddl: &mut Ddl<'_>,
    of: &Collection,
    spec: IndexSpec,
    ready: bool,
) -> Result<Index> {
    let multikey = Arc::new(Multikey::new(multikey_words(&spec)));
    let power = if spec.is_id() { of.ident.stripes_power() } else { 0 };
    let index = Index::new(spec, ready, ddl.striped_ident(power)?, multikey)?;
    Ok(index.of_records(of.layout, (of.space, of.ident)))
}

fn shared(index: Result<Index>) -> Result<Arc<Index>> {
    index.map(Arc::new)
}

/// Checks a specification beyond its syntax: its partial filter must parse.
pub(super) fn checked(spec: IndexSpec) -> Result<IndexSpec> {
    if let Some(partial) = &spec.partial {
        crate::index::precondition::Precondition::partial(
            partial.as_doc(),
            spec.collation,
            spec.original.is_some(),
        )?;
    }
    Ok(spec)
}

/// Returns true if a build of these indexes has something to do.
pub(super) fn is_missing(collection: &Collection, specs: &[IndexSpec]) -> bool {
    let there: Vec<_> = collection.named_indexes().cloned().collect();
    specs.iter().any(|spec| matches!(exists(&there, spec), Ok(false)))
}

/// Returns true if the index exists; 85 or 86 if it conflicts with another one.
fn exists(indexes: &[Arc<Index>], spec: &IndexSpec) -> Result<bool> {
    if spec.is_id() {
        return Ok(true);
    }
    if let Some(index) = indexes.iter().find(|index| index.spec.name == spec.name) {
        let texts = (doc_text(spec.doc.as_doc()), doc_text(index.spec.doc.as_doc()));
        if !index.spec.same_signature(spec) {
            bail!(
                Code::INDEX_KEY_SPECS_CONFLICT,
                "An existing index has the same name as the requested index. When index names are \
                 not specified, they are auto generated and can cause conflicts. Please refer to \
                 our documentation. Requested index: {}, existing index: {}",
                texts.0,
                texts.1
            );
        }
        if !index.spec.same_options(spec) {
            bail!(
                Code::INDEX_OPTIONS_CONFLICT,
                "An equivalent index already exists with the same name but different options. \
                 Requested index: {}, existing index: {}",
                texts.0,
                texts.1
            );
        }
        if !index.ready {
            bail!(
                Code::INDEX_BUILD_ALREADY_IN_PROGRESS,
                "Index build already in progress: {}",
                texts.1
            );
        }
        return Ok(true);
    }
    match indexes.iter().find(|index| index.spec.same_signature(spec)) {
        None => refuse_second(indexes.iter().map(|index| &index.spec), spec),
        Some(index) if index.spec.same_options(spec) => bail!(
            Code::INDEX_OPTIONS_CONFLICT,
            "Index already exists with a different name: {}",
            index.spec.name
        ),
        Some(index) => bail!(
            Code::INDEX_OPTIONS_CONFLICT,
            "An equivalent index already exists with a different name and options. Requested \
             index: {}, existing index: {}",
            doc_text(spec.doc.as_doc()),
            doc_text(index.spec.doc.as_doc())
        ),
    }
}

/// Refuses a second index of a kind of which a collection may have one. Otherwise returns false: the index does not
/// exist.
fn refuse_second<'i>(
    indexes: impl IntoIterator<Item = &'i IndexSpec>,
    spec: &IndexSpec,
) -> Result<bool> {
    let same_kind = |other: &&IndexSpec| spec.kind.facts().single && other.kind == spec.kind;
    match indexes.into_iter().find(same_kind) {
        None => Ok(false),
        Some(other) => bail!(
            Code::CANNOT_CREATE_INDEX,
            "only one {kind} index per collection allowed, found existing {kind} index \"{}\"",
            other.name,
            kind = spec.kind.facts().name
        ),
    }
}

/// Refuses two equal indexes in one request.
fn refuse_twice(requested: &[IndexSpec], spec: &IndexSpec) -> Result<()> {
    let Some(other) =
        requested.iter().find(|other| other.name == spec.name || other.same_signature(spec))
    else {
        return refuse_second(requested, spec).map(drop);
    };
    if other.name != spec.name {
        if other.kind.facts().single && !other.same_options(spec) {
            bail!(
                Code::INDEX_OPTIONS_CONFLICT,
                "An equivalent index already exists with a different name and options. Requested \
                 index: {}, existing index: {}",
                doc_text(spec.doc.as_doc()),
                doc_text(other.doc.as_doc())
            );
        }
        bail!(
            Code::INDEX_ALREADY_EXISTS,
            "index already exists with different name: {}",
            other.name
        );
    }
    if other.same_signature(spec) && other.same_options(spec) {
        bail!(Code::INDEX_ALREADY_EXISTS, "Identical index already exists: {}", spec.name);
    }
    let code = match other.same_signature(spec) {
        true => Code::INDEX_OPTIONS_CONFLICT,
        false => Code::INDEX_KEY_SPECS_CONFLICT,
    };
    bail!(code, "Index with name: {} already exists with different options", spec.name)
}
