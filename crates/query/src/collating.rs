//! The collation of an operation: the one it names, or else the collection's.

use nagi_error::{Code, Result, bail};
use nagi_lang::collation::{Asked, Collation};
use nagi_store::{Collection, Namespace, Store};

/// The collation of an operation on a collection, a view or nothing.
///
/// # Errors
/// 167 if it names another collation than the view's. A time series may be read by any collation.
pub(crate) fn of(
    collection: Option<&Collection>,
    asked: Asked,
) -> Result<Option<&'static Collation>> {
    let Some(collection) = collection else { return Ok(asked.or(None)) };
    let own = collection.options.collation;
    if collection.is_view() && !collection.shows_series() && asked.or(own) != own {
        bail!(Code::OPTION_NOT_SUPPORTED_ON_VIEW, "Cannot override a view's default collation");
    }
    Ok(asked.or(own))
}

/// Like [`of`], for a collection given by name.
///
/// # Errors
/// The same as for `of`.
pub(crate) fn by_name(
    store: &Store,
    namespace: &Namespace,
    asked: Asked,
) -> Result<Option<&'static Collation>> {
    of(store.collection(namespace).as_deref(), asked)
}
