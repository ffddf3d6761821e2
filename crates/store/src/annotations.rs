//! Extension slots: data that the upper layer stores with a collection or a store, such as the plan cache or index
//! filters.
//!
//! The store does not know the type or the purpose of the data, only its lifetime.

use std::{any::Any, fmt, sync::OnceLock};

/// One value of a type that the reader knows. Reading costs a load.
#[derive(Default)]
pub struct Annotations(OnceLock<Box<dyn Any + Send + Sync>>);

impl Annotations {
    /// The value, created at the first call. All callers of one slot must use the same type.
    pub fn get_or_make<T: Any + Send + Sync + Default>(&self) -> &T {
        let any = self.0.get_or_init(|| Box::<T>::default());
        any.downcast_ref().expect("a place of notes has one reader")
    }

    /// The value, if it was created.
    pub fn get<T: Any + Send + Sync>(&self) -> Option<&T> {
        self.0.get()?.downcast_ref()
    }
}

impl fmt::Debug for Annotations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.get().is_some() { "Annotations(some)" } else { "Annotations(none)" })
    }
}
